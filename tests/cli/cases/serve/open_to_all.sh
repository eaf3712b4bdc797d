crosshead serve $DATA/TinyStories-656K --port 0 --host 0.0.0.0 >out &
server=$!
until grep -qs serving out || ! kill -0 $server; do sleep 0.05; done
kill -TERM $server
wait $server
status=$?
cat out
exit $status
