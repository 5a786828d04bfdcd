# slug TEXT: the text as a name for a file: lower case, words joined by "-".
slug() {
  printf '%s' "$1" | tr 'A-Z' 'a-z' | tr -cs 'a-z0-9' '-'
  echo
}
