# leap YEAR: "yes" when the year has a 29th of February, "no" otherwise.
leap() {
  if [ $(($1 % 4)) -eq 0 ] && [ $(($1 % 100)) -ne 0 ]; then
    echo yes
  else
    echo no
  fi
}
