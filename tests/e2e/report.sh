#!/usr/bin/env bash
# A browser opens a report in light mode, in dark mode and at the width of a phone. The report logs
# no error and requests nothing but itself. The report of a run shows the values below the pointer.
# Without a browser, the test is skipped after the checks that need none.
# KEEP=<folder> keeps the screenshots there.
source "$(dirname "$0")/lib/common.sh"

program=$(dirname "$bin")/tests/example_report
bin=/  # `expect` then takes absolute paths
mkdir "$work/site"
expect 0 "$program" "$work/site"
cd "$work/site"

echo "the files"
python3 - > "$log" << 'EOF'
import html.parser, os, re, xml.etree.ElementTree

for name in os.listdir("figures"):
    if name.endswith(".svg"):
        xml.etree.ElementTree.parse("figures/" + name)
page = open("report.html", encoding="utf-8").read()
size = len(page.encode())
assert size < 8 << 20, size
# Nothing is external: no address except SVG's namespace, no script, nothing that a style can load.
rest = page.replace('xmlns="http://www.w3.org/2000/svg"', "")
for pattern in r"https?:", r"//[a-z0-9]+\.", r"<script", r"\bon[a-z]+\s*=", r"@import", r"url\(":
    found = re.search(pattern, rest, re.I)
    assert not found, rest[max(found.start() - 80, 0) : found.end() + 80]

class Reader(html.parser.HTMLParser):
    names, links, pictures, silent, sources = [], [], 0, 0, []
    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if "id" in given: self.names.append(given["id"])
        if tag == "a": self.links.append(given["href"])
        if given.get("role") == "img":
            self.pictures += 1
            self.silent += not given.get("aria-label")
        self.sources += [v for k, v in attributes if k in ("src", "href") and tag != "a"]

reader = Reader()
reader.feed(page)
assert len(set(reader.names)) == len(reader.names), reader.names
assert all(link[0] == "#" and link[1:] in reader.names for link in reader.links), reader.links
assert reader.pictures > 20 and reader.silent == 0, (reader.pictures, reader.silent)
assert all(s.startswith("data:") for s in reader.sources), [s[:80] for s in reader.sources]
print(f"{reader.pictures} pictures in {size} bytes")
EOF
expect_text '^[23][0-9] pictures in [0-9]+ bytes$'
for picture in figures/*.svg; do
  if command -v rsvg-convert > /dev/null; then expect_equal "$picture" "$(test -s "${picture%.svg}.png"; echo $?)" 0; fi
done

echo "the report of a run"
mkdir run
cat > run/config.yaml << 'EOF'
name: "a <script>document.title='taken over'</script>"
EOF
cat > run/metrics.jsonl << 'EOF'
{"step":10,"epoch":1,"loss":2.5,"lr":0.001,"grad_norm":1.5,"images_per_second":100}
{"step":10,"epoch":1,"split":"val","top1":60.5,"loss":1.75,"count":80}
{"step":20,"epoch":2,"loss":2.25,"lr":0.0005,"grad_norm":1.25,"images_per_second":100}
{"step":20,"epoch":2,"split":"val","top1":62.5,"loss":1.25,"count":80}
EOF
expect 0 "$program" --run run
python3 - << 'EOF' || fail "the policy of a run's report does not permit its script alone"
import base64, hashlib, re
page = open("run/report.html", encoding="utf-8").read()
(script,) = re.findall(r"<script[^>]*>(.*?)</script>", page, re.S)
wanted = "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
allowed = re.search(r"script-src '([^']*)'\"", page)[1]
assert allowed == wanted, f"hover_hash() must be {wanted}"
EOF

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [[ ! $browser ]]; then
  echo "skipped: there is no browser here (Debian package chromium)"
  exit 77
fi

# A server that records the requested paths and ends with the test.
cat > "$work/serve.py" << 'EOF'
import http.server, sys

class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, text, *values):
        pass
    def do_GET(self):
        print(self.path, file=open(sys.argv[1], "a"))
        super().do_GET()

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
EOF
python3 "$work/serve.py" "$work/asked" > "$work/port" &
server=$!
clean_up() { kill "$server" 2> /dev/null || true; }
for ((i = 0; i < 100; ++i)); do
  [[ -s $work/port ]] && break
  sleep 0.1
done
site=http://127.0.0.1:$(cat "$work/port")

# browse PAGE OPTION...: the messages of the page go to $log, its requests to $work/asked. Only the
# server's address resolves.
browse() {
  : > "$work/asked"
  timeout 120 "$browser" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
    --user-data-dir="$work/profile" --no-first-run --disable-background-networking \
    --disable-component-update --disable-sync --hide-scrollbars \
    --host-resolver-rules='MAP * ~NOTFOUND, EXCLUDE 127.0.0.1' --enable-logging=stderr \
    "${@:2}" "$site/$1" > "$work/page" 2> "$work/said" < /dev/null || fail "$browser: $(tail -3 "$work/said" | cut -c -300)"
  grep ':CONSOLE' "$work/said" | cut -c -300 > "$log" || true
  checks=$((checks + 1))
}

# expect_title PAGE PATTERN: on a phone and on a wide screen, the page's title begins with PATTERN.
expect_title() {
  local width
  for width in 390 1280; do
    browse "$1" --window-size="$width,1600" --dump-dom
    grep -m 1 -o '<title>[^<]*' "$work/page" > "$log"
    expect_text "^<title>$2"
  done
}
expect_quiet() {
  expect_equal "what $1 logs" "$(cat "$log")" ''
  expect_equal "what $1 asks for" "$(sort -u "$work/asked")" /report.html
}
corner() { python3 - "$1" << 'EOF'
import struct, sys, zlib
data = open(sys.argv[1], "rb").read()
size, pixels, at = struct.unpack(">II", data[16:24]), b"", 8
while at < len(data):
    length, kind = struct.unpack(">I4s", data[at : at + 8])
    if kind == b"IDAT": pixels += data[at + 8 : at + 8 + length]
    at += length + 12
print(*size, zlib.decompress(pixels)[1:4].hex())  # PNG filters keep the first pixel
EOF
}

echo "light, dark and on a phone"
browse report.html --window-size=1280,1600 --blink-settings=preferredColorScheme=1 \
  --screenshot="$work/light.png"
expect_quiet "the report"
expect_equal "the light page" "$(corner "$work/light.png")" "1280 1600 ffffff"
browse report.html --window-size=1280,1600 --blink-settings=preferredColorScheme=0 \
  --screenshot="$work/dark.png"
expect_quiet "the dark report"
expect_equal "the dark page" "$(corner "$work/dark.png")" "1280 1600 17191c"
browse report.html --window-size=390,1600 --blink-settings=preferredColorScheme=1 \
  --screenshot="$work/phone.png"
expect_quiet "the report on a phone"
expect_equal "the page on a phone" "$(corner "$work/phone.png")" "390 1600 ffffff"
if [[ ${KEEP:-} ]]; then cp "$work"/{light,dark,phone}.png report.html "$KEEP"; fi

echo "widths"
# A copy without the policy runs a script that writes into the title by how much the page is too
# wide: pictures scroll, the page does not.
python3 - << 'EOF'
import re
page = open("report.html").read()
page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
script = """<script>const all = document.documentElement;
document.title = all.scrollWidth - all.clientWidth + ' too wide; smallest text ' +
  Math.min(...[...document.querySelectorAll('text')].map(t => t.getBoundingClientRect())
    .map(box => Math.max(box.width, box.height)).filter(size => size > 0)) +
  ' of ' + document.querySelectorAll('text').length;</script>"""
open("measured.html", "w").write(page.replace("</body>", script + "</body>"))
EOF
expect_title measured.html '0 too wide; smallest text (9\.[5-9]|1[0-9])[0-9.]* of [0-9]{3}'

echo "values below the pointer"
browse run/report.html --screenshot="$work/run.png"
expect_equal "what the report of a run logs" "$(cat "$log")" ''
expect_equal "what the report of a run asks for" "$(sort -u "$work/asked")" /run/report.html
# In a copy without the policy, a script moves the pointer to the last epoch of the loss.
python3 - << 'EOF'
import re
page = open("run/report.html").read()
page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
script = """<script>
const chart = [...document.querySelectorAll('#loss svg[data-frame]')].find(
  svg => svg.getBoundingClientRect().width > 0);
const box = chart.getBoundingClientRect(), scale = box.width / chart.viewBox.baseVal.width;
const [left, top_, width] = chart.dataset.frame.split(' ').map(Number);
chart.dispatchEvent(new PointerEvent('pointermove', {bubbles: true,
  clientX: box.left + scale * (left + 0.98 * width), clientY: box.top + scale * (top_ + 9)}));
const shown = document.querySelector('.tip').getBoundingClientRect();
document.title = (shown.left >= 0 && shown.right <= document.documentElement.clientWidth) + ' ' +
  [...document.querySelectorAll('.tip>div')].map(line => line.textContent).join('; ') + ' ' +
  (document.documentElement.scrollWidth - document.documentElement.clientWidth) + ' too wide';
</script>"""
open("pointed.html", "w").write(page.replace("</body>", script + "</body>"))
EOF
expect_title pointed.html 'true epoch 2; .training2.25; .evaluation1.25 0 too wide'

echo "violations are detected"
python3 - << 'EOF'
import re
page = open("report.html").read()
spoilt = '<img src="other.png"><img src="http://example.org/x.png"><script>throw 1</script></body>'
open("spoilt.html", "w").write(page.replace("</body>", spoilt))
free = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
open("free.html", "w").write(free.replace("</body>", spoilt))
EOF
browse spoilt.html --screenshot="$work/spoilt.png"
expect_text 'Content Security Policy'
expect_equal "what the policy lets pass" "$(sort -u "$work/asked")" /spoilt.html
browse free.html --screenshot="$work/free.png"
expect_text 'Uncaught 1'
expect_equal "what is asked for without it" "$(sort -u "$work/asked" | tr '\n' ' ')" '/free.html /other.png '
