check "a half" "50" "$(percent 1 2)"
check "rounds up" "67" "$(percent 2 3)"
