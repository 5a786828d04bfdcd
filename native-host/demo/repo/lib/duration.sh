# duration SECONDS: a time for people, such as 59s, 1m05s or 2h03m.
duration() {
  if [ "$1" -lt 60 ]; then
    printf '%ds\n' "$1"
  elif [ "$1" -lt 3600 ]; then
    printf '%dm%ds\n' "$(($1 / 60))" "$(($1 % 60))"
  else
    printf '%dh%02dm\n' "$(($1 / 3600))" "$(($1 % 3600 / 60))"
  fi
}
