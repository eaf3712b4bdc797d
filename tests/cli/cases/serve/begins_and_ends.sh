# It says where it listens, and ends with 0 when it is asked to.
crosshead serve $DATA/TinyStories-656K --port 0 --alias tales --no-web --context 300 --parallel 3 --queue 5 --prefill-chunk 64 \
  --max-body 1MiB --drain 5 --cors https://a.example --allow-host a.example --threads 1 --cache-dtype bf16 --compute bf16 >out &
server=$!
until grep -qs serving out || ! kill -0 $server; do sleep 0.05; done
kill -TERM $server
wait $server
status=$?
cat out
exit $status
