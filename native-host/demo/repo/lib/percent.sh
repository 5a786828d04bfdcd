# percent PART TOTAL: the share of PART in TOTAL in percent, rounded.
percent() {
  echo "$((100 * $1 / $2))"
}
