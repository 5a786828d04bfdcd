check "seconds" "59s" "$(duration 59)"
check "minutes have two digits of seconds" "1m05s" "$(duration 65)"
check "hours" "2h03m" "$(duration 7380)"
