echo '{% if %}' >broken.jinja
crosshead serve $DATA/TinyStories-656K --port 0 --chat-template broken.jinja >out &
server=$!
until grep -qs serving out || ! kill -0 $server; do sleep 0.05; done
kill -TERM $server
wait $server
status=$?
cat out
exit $status
