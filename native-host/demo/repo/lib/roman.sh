# roman NUMBER: the number in Roman numerals.
roman() {
  rest=$1
  text=
  for pair in 1000:M 900:CM 500:D 400:CD 100:C 90:XC 50:L 40:XL 10:X 5:V 4:IV 1:I; do
    while [ "$rest" -ge "${pair%:*}" ]; do
      rest=$((rest - ${pair%:*}))
      text=$text${pair#*:}
    done
  done
  echo "$text"
}
