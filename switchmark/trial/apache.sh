# The neighbour `apache`: Apache httpd serves a page of 11 kB to ApacheBench over a separate loopback
# device, until this shell receives a signal. $1: an empty folder, $2: number of parallel clients.
url=http://127.0.0.1:8088/Apache-2.0
cat >"$1/httpd.conf" <<TEXT
ServerRoot "$1"
ServerName localhost
Listen 127.0.0.1:8088
PidFile "$1/pid"
ErrorLog "$1/error.log"
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
User www-data
Group www-data
DocumentRoot /usr/share/common-licenses
TEXT
ip link set lo up || exit 1
apache2 -f "$1/httpd.conf" -DFOREGROUND &
server=$!
# The shell waits for both, so that the kernel counts their CPU time.
trap 'kill "$server" $bench 2>/dev/null; wait; exit 0' TERM INT
until ab -q -n 1 "$url" >/dev/null 2>&1; do
  kill -0 "$server" 2>/dev/null || { cat "$1/error.log" >&2; exit 1; }
  sleep 0.02
done
while :; do
  ab -q -c "$2" -n 1000000 "$url" >/dev/null 2>&1 &
  bench=$!
  wait "$bench" || { echo "ab ended" >&2; exit 1; }
done
