# median NUMBER...: the number in the middle; of two, the smaller one.
median() {
  middle=$((($# - 1) / 2))
  set -- $(printf '%s\n' "$@" | sort)
  shift "$middle"
  echo "$1"
}
