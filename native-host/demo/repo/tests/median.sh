check "one digit" "3" "$(median 5 3 1)"
check "numbers, not words" "9" "$(median 100 9 2)"
