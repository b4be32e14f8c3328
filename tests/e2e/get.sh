#!/usr/bin/env bash
# dtn-get: models from a Hub that breaks off, sends wrong data, redirects, refuses and delays; and
# the cache, where the other programs find the models.
source "$(dirname "$0")/lib/common.sh"
source "$lib/hub.sh"
cd "$work"
name=vit_tiny_patch16_224.augreg_in21k_ft_in1k
folder=$DTN_CACHE/models/timm/$name
weights=$folder/model.safetensors
requests=$work/server/requests.jsonl

# get CODE BEHAVIOUR [OPTION...]: fetches the model from a Hub with that behaviour.
get() {
  : > "$requests"
  HF_ENDPOINT=$hub/$2 expect "$1" dtn-get "$name" --retry-wait 0.01 "${@:3}"
}
fresh() { rm -rf "$DTN_CACHE"; }
expect_whole() {  # [FILE]
  checks=$((checks + 1))
  cmp "$weights" "server/${1:-expected}.safetensors" || fail "the weights differ"
  expect_equal "files" "$(ls "$folder" | tr '\n' ' ')" "config.json dtn-get.json model.safetensors "
}
expect_requests() { expect_equal "requests" "$(wc -l < "$requests")" "$1"; }

echo "a complete download; then the model is in the cache"
get 0 plain
expect_text "timm/$name from $hub, commit 0123456789" 'model: vit_tiny_patch16_224.augreg_in21k_ft_in1k, 1000 classes' \
  'license: cc-by-nc-4.0' 'origin: https://example.org/origin' 'SHA-256 as named' "^$folder\$"
expect_whole
expect_requests 2
check "the record" << 'EOP'
import hashlib
record = json.load(open(os.environ["DTN_CACHE"] + "/models/timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k/dtn-get.json"))
data = open("server/expected.safetensors", "rb").read()
entry = record["files"]["model.safetensors"]
assert entry["sha256"] == hashlib.sha256(data).hexdigest() and entry["size"] == len(data), entry
assert "/resolve/0123456789abcdef0123456789abcdef01234567/model.safetensors" in entry["url"], entry
assert record["model"].startswith("timm/vit_tiny"), record
EOP
get 0 plain --offline
expect_text 'is already here' "^$folder\$"
get 3 plain --offline --force
expect_text "is in $folder, but cannot be fetched again: --offline forbids a connection"
expect_requests 0
get 0 plain --force
expect_requests 2
head -c 1000 server/expected.safetensors > "$weights"
get 3 plain
expect_text 'has 1000 bytes, but 3000[0-9]+ were fetched; fetch it again with --force'

echo "offline"
fresh
get 3 plain --offline
expect_text "lacks config.json and model.safetensors of timm/$name, and --offline forbids" "$folder"
HF_HUB_OFFLINE=1 get 3 plain
expect_text 'HF_HUB_OFFLINE forbids'
expect_requests 0
expect_no_file "$DTN_CACHE"

echo "a connection that breaks"
get 0 break
expect_text 'trying again in 0.0 s \(1 of 5\)' 'after .* of 0.286 MiB'
expect_whole
expect_requests 4
check "each piece once" << 'EOP'
ranges = [json.loads(line)["range"] for line in open("server/requests.jsonl")][1:]
starts = [int(r[6:-1]) if r else 0 for r in ranges]
assert starts[0] == 0 and starts == sorted(set(starts)) and len(starts) == 3, ranges
EOP
fresh
get 0 etag
expect_text 'no checksum was named, so only its size was compared'
expect_whole
check "If-Range" << 'EOP'
asked = [json.loads(line)["if_range"] for line in open("server/requests.jsonl")]
assert asked == [None, None, '"v1"', '"v1"'], asked
EOP
fresh
get 1 dies --retries 2
expect_text 'after 0.0954 MiB of 0.286 MiB; gave up after 3 attempts'
expect_file "$weights.part"
expect_no_file "$weights"
get 0 plain
expect_text '0.0954 MiB of 0.286 MiB are here from before; going on there'
expect_whole
fresh
get 0 norange
expect_text 'the server does not go on where the download ended; starting again'
expect_whole
fresh
get 1 again --retries 2
expect_text 'gave up after 3 attempts'
expect_requests 4  # receiving the same bytes again does not reset the count of attempts
fresh
get 0 changes
expect_text 'the file on the server is another one now; starting again'
expect_whole changed
fresh
# All bytes were already downloaded when the program ended.
get 1 dies --retries 0
cp server/expected.safetensors "$weights.part"
get 0 plain
expect_whole
fresh
# The partial file has a wrong byte.
get 1 dies --retries 0
printf 'x' | dd of="$weights.part" bs=1 seek=5000 conv=notrunc status=none
get 0 plain
expect_text 'the pieces do not have the SHA-256 .*; starting again'
expect_whole

echo "wrong data from the server"
fresh
get 1 longer --retries 1
expect_text 'gave up after 2 attempts'
get 3 shorter
expect_text 'says that the file has [0-9]+ bytes, but sends [0-9]+'
get 3 endless
expect_text 'sends more than the [0-9]+ bytes that it names'
fresh
get 3 damaged
expect_text 'arrives damaged: its SHA-256 is [0-9a-f]{64}, but [0-9a-f]{64} was named'
get 3 cut
expect_text 'cannot be used; nothing was kept' 'model.safetensors'
get 3 pointer
expect_text 'is a Git LFS pointer'
expect_equal "files" "$(ls "$folder" | tr '\n' ' ')" "config.json dtn-get.json "
get 0 unknown
expect_text 'no checksum was named'
expect_whole
fresh
get 3 bigconfig
expect_text 'config.json: the server sends more than the 4 MiB'
get 1 huge
expect_text 'needs [0-9]+.* but .* has room for .*; make room, or choose another disk'

echo "redirects: the storage does not get the token"
fresh
HF_TOKEN=hf_secret get 0 storage
expect_whole
check "tokens" << EOP
lines = [json.loads(line) for line in open("server/requests.jsonl")]
hub = [line["token"] for line in lines if line["port"] == $port]
storage = [line["token"] for line in lines if line["port"] == $storage_port]
assert len(hub) == 4 and set(hub) == {"Bearer hf_secret"}, lines
assert len(storage) == 3 and set(storage) == {None}, lines
assert "hf_secret" not in log
EOP
fresh
get 3 loop
expect_text 'redirects more than 10 times'
get 3 file
expect_text "redirects to 'file:///etc/passwd', which is no address of the web"

echo "a proxy"
fresh
HF_ENDPOINT=http://hub.invalid/plain http_proxy=$hub expect 0 dtn-get "$name"
expect_whole
grep -q '"path": "http://hub.invalid/plain/timm' "$requests" || fail "the proxy got $(cat "$requests")"
fresh
http_proxy=http://127.0.0.1:1 no_proxy=127.0.0.1 get 0 plain
expect_whole
http_proxy=http://127.0.0.1:1 get 1 plain --force
expect_text 'no connection to'
expect_whole  # --force keeps the old model until the new one is complete

echo "a machine without libcurl"
fresh
mkdir no_curl && touch no_curl/libcurl.so.4 no_curl/libcurl-gnutls.so.4
LD_LIBRARY_PATH=$work/no_curl get 3 plain
expect_text "libcurl cannot be loaded.*install libcurl4.*put these files there: $hub/plain/timm/$name/resolve/main/config.json"

echo "refusals"
get 3 gated
expect_text 'answers 403: .* is gated: accept its conditions on .*HF_TOKEN'
HF_TOKEN=hf_wrong get 3 refused
expect_text 'answers 401: .* is private, or not on the Hub .* the token in HF_TOKEN gives no access'
get 3 nothing
expect_text "answers 404: timm/$name is not on the Hub"
get 3 noweights
expect_text 'has no model.safetensors; its weights may be a pickle'
get 0 busy
expect_text 'the server answers 429; trying again in 1.0 s'
expect_whole
fresh
get 1 later
expect_text 'asks to wait for 1 h 00 min'
get 1 fails --retries 2
expect_text 'the server answers 500; trying again.*\(2 of 2\)' 'gave up after 3 attempts'
expect_requests 3
HF_ENDPOINT=http://127.0.0.1:1 expect 1 dtn-get "$name"
expect_text 'no connection to http://127.0.0.1:1 .*check the network, the proxy'
HF_ENDPOINT=ftp://example.org expect 2 dtn-get "$name"
expect_text "HF_ENDPOINT: 'ftp://example.org' is no address"
HF_TOKEN=$'hf_a\nX-Evil: b' expect 2 dtn-get "$name"
expect_text 'HF_TOKEN has spaces'

echo "names and folders"
export HF_ENDPOINT=$hub/plain
for wrong in ../x/y a/../b /etc/passwd timm/../../x 'a/b@../c' 'timm/x y' vit_tiny_patch16_225; do
  expect 2 dtn-get "$wrong"
done
expect_text "no public model 'vit_tiny_patch16_225'; did you mean 'vit_tiny_patch16_224'"
expect 2 dtn-get eva02_tiny_patch14_224
expect_text rotary
expect 2 dtn-get somebody/resnet50.a1_in1k
expect_text 'resnet50.*The weights were not fetched; --any-config'
expect_no_file "$DTN_CACHE/models/somebody/resnet50.a1_in1k/model.safetensors.part"
expect 0 dtn-get somebody/resnet50.a1_in1k --any-config
expect_text 'need --config'
expect 0 dtn-get "timm/$name@refs/pr/1"
expect_file "$DTN_CACHE/models/timm/$name@refs+pr+1/model.safetensors"
: > "$requests"
expect 0 dtn-get vit_tiny_patch16_224 --output mine
expect_file mine/model.safetensors
expect 2 dtn-get vit_small_patch16_224 --output mine
expect_text "mine holds the model timm/$name; choose another folder"
mkdir web && echo '{}' > web/config.json
expect 2 dtn-get "$name" --output web
expect_text 'web/config.json is there already'
DTN_CACHE=$log/cache expect 1 dtn-get "$name"
expect_text 'cannot write to the folder .*/cache/.*; choose another one with DTN_CACHE or --output'

echo "two at once: the second one waits and finds the model"
fresh
HF_ENDPOINT=$hub/slow "$bin/dtn-get" "$name" > first.txt 2>&1 &
first=$!
until [[ -s $weights.part ]]; do sleep 0.05; done
HF_ENDPOINT=$hub/slow "$bin/dtn-get" "$name" > second.txt 2>&1 &
second=$!
until grep -qs 'another dtn-get is writing' second.txt; do sleep 0.05; done
touch server/go
wait $first || fail "the first of two fails: $(cat first.txt)"
wait $second || fail "the second of two fails: $(cat second.txt)"
expect_whole
rm server/go

echo "a signal keeps the partial file"
fresh
HF_ENDPOINT=$hub/slow "$bin/dtn-get" "$name" > "$log" 2>&1 &
first=$!
until [[ -s $weights.part ]]; do sleep 0.05; done
kill -TERM $first
code=0
wait $first || code=$?
expect_equal "exit code" $code 75
expect_text 'model.safetensors: stopped after .* of 0.286 MiB; run the same command to go on'
get 0 plain
expect_text 'are here from before'
expect_whole

echo "a full disk"
fresh
code=0
(trap '' XFSZ && ulimit -f 100 && exec "$bin/dtn-get" "$name") > "$log" 2>&1 || code=$?
expect_equal "exit code" $code 1
expect_text 'model.safetensors.part: .* are free there. 0.0[0-9]+ MiB of the file are kept; make room'
get 0 plain
expect_text 'are here from before'
expect_whole

echo "a bar on a terminal"
fresh
python3 "$lib/terminal.py" "$bin/dtn-get" "$name" > "$log" || fail "on a terminal: $(cat "$log")"
expect_text 'model.safetensors .*#.* of 0.286 MiB .*MiB/s'

echo "programs find the model by its name"
# Weights that fit: from a run of a smaller version of that model.
small=(--set model.depth=1 --set model.image_size=32 --set data.dataset=synthetic --set data.size=8
  --set model.num_classes=5 --set train.batch_size=4 --set schedule.steps=1)
expect 0 dtn-train --config "$name" "${small[@]}" --output run
fresh
expect 2 dtn-eval --checkpoint "$name" --inputs images.safetensors
expect_text "the public model of this name is not in the cache \($folder\); fetch it: dtn-get $name"
expect 2 dtn-train --config "$name" "${small[@]}" --set model.init_weights=vit_tiny_patch16_224 --output tuned
expect_text 'fetch it: dtn-get vit_tiny_patch16_224'
mkdir -p "$folder"
cp run/checkpoints/last/model.safetensors "$folder"
echo '{"architecture": "vit_tiny_patch16_224", "num_classes": 5, "model_args": {"depth": 1, "img_size": 32}}' \
  > "$folder/config.json"
python3 -c "import files; files.write_safetensors('images.safetensors', {
  'images': files.floats([1, 3, 32, 32], [0.5] * 3072)})"
expect 0 dtn-eval --checkpoint vit_tiny_patch16_224 --inputs images.safetensors --save-logits a.safetensors
expect_text "vit_tiny_patch16_224 is in the cache: $folder"
expect_equal "times that the folder is named" "$(grep -c 'is in the cache' "$log")" 1
expect 0 dtn-train --config "$name" "${small[@]}" --set model.init_weights="$name" --output tuned
expect_text "init_weights: $weights"
expect 0 dtn-train --config "$name" "${small[@]}" --set distill.teacher="timm/$name" --output taught
expect 0 dtn-average "$name" run --output mean.safetensors
expect 0 dtn-export --checkpoint "$name" --output a.onnx
expect 0 dtn-predict --checkpoint "$name" --help
# A path takes precedence over a model name.
cp -r run "$name"
expect 0 dtn-eval --checkpoint "$name" --inputs images.safetensors --save-logits b.safetensors
expect_text "weights: .*$work/$name/checkpoints"
