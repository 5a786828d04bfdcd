check "joins words" "hello-world" "$(slug 'Hello World')"
check "drops what stands at the ends" "hello-world" "$(slug ' Hello, World! ')"
