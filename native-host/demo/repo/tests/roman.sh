check "adds" "MMXXVI" "$(roman 2026)"
check "four" "XIV" "$(roman 14)"
check "nine" "XIX" "$(roman 19)"
