#!/bin/sh
# Runs the tests of the named commands, or of all: ./run-tests.sh [COMMAND...]
cd "$(dirname "$0")" || exit 1
passed=0
failed=0

# check WHAT EXPECTED ACTUAL
check() {
  if [ "$2" = "$3" ]; then
    passed=$((passed + 1))
    echo "ok - $command: $1"
  else
    failed=$((failed + 1))
    echo "not ok - $command: $1: expected '$2', got '$3'"
  fi
}

if [ $# -eq 0 ]; then
  for file in tests/*.sh; do
    file=${file#tests/}
    set -- "$@" "${file%.sh}"
  done
fi
for command in "$@"; do
  . "./lib/$command.sh"
  . "./tests/$command.sh"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
