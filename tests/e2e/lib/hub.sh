# Sourced by the tests that need a Hub: starts tests/e2e/lib/hub_server.py in $work/server. Sets
# $hub to its address. The user's settings are not used.
unset HF_TOKEN HF_HUB_OFFLINE XDG_CACHE_HOME SSL_CERT_FILE
unset http_proxy https_proxy all_proxy no_proxy HTTPS_PROXY ALL_PROXY NO_PROXY
mkdir "$work/server"
python3 "$lib/hub_server.py" "$work/server" &
hub_server=$!
clean_up() { kill "$hub_server"; }
for ((i = 0; i < 400; i++)); do
  if [[ -e $work/server/ports ]]; then break; fi
  sleep 0.05
done
read -r port storage_port < "$work/server/ports"
hub=http://127.0.0.1:$port
export DTN_CACHE=$work/cache
