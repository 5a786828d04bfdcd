check "every fourth year" "yes" "$(leap 2024)"
check "no other year" "no" "$(leap 2025)"
check "no century" "no" "$(leap 1900)"
check "every fourth century" "yes" "$(leap 2000)"
