"""hub_server.py FOLDER: a stand-in for the Hugging Face Hub, with faults, for tests of dtn-get.

Listens at two ports of 127.0.0.1, the Hub and its storage, and writes both to FOLDER/ports. The
first folder of an address says how the server behaves: HF_ENDPOINT=http://127.0.0.1:PORT/break is a
Hub that breaks off. Every repository exists; its name says the architecture and the tag. Each
request is a line of JSON in FOLDER/requests.jsonl."""
import hashlib
import http.server
import json
import os
import re
import struct
import sys
import threading

FOLDER = sys.argv[1]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
lock = threading.Lock()
counts = {}  # requests for the weights, by behaviour


def weights_of(seed=1, size=300_000):
    header = json.dumps({"head.weight": {"dtype": "F32", "shape": [size // 4],
                                         "data_offsets": [0, size]}}).encode()
    body = bytes((i * 7 + seed) % 251 for i in range(1000)) * (size // 1000)
    return struct.pack("<Q", len(header)) + header + body


def config_of(repo):
    architecture, _, tag = repo.partition(".")
    return {"architecture": architecture, "num_classes": 1000, "pretrained_cfg": {
        "tag": tag, "input_size": [3, 224, 224], "license": "cc-by-nc-4.0",
        "origin_url": "https://example.org/origin"}}


class Hub(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        # A request to a proxy also names the server.
        path = re.sub("^http://[^/]+", "", self.path)
        _, self.how, *parts = path.split("/")
        self.parts, self.file = parts, parts[-1]
        seen = {name.lower(): value for name, value in self.headers.items()}
        with lock, open(f"{FOLDER}/requests.jsonl", "a") as log:
            is_weights = self.file == "model.safetensors"
            if is_weights:
                counts[self.how] = counts.get(self.how, 0) + 1
            self.count = counts.get(self.how, 0)
            print(json.dumps({"port": self.server.server_port, "path": self.path,
                              "range": seen.get("range"), "if_range": seen.get("if-range"),
                              "token": seen.get("authorization")}), file=log)
        try:
            getattr(self, "do_" + self.how)()
        except (BrokenPipeError, ConnectionResetError):
            pass
        self.wfile.flush()

    def answer(self, status, body=b"", length=None, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def answer_config(self, **headers):
        config = json.dumps(config_of(self.parts[1])).encode()
        self.answer(200, config, ETag='"1234"', X_Repo_Commit=COMMIT, **headers)

    def facts(self, data):
        return {"X_Linked_Size": str(len(data)), "X_Repo_Commit": COMMIT,
                "X_Linked_Etag": f'"{hashlib.sha256(data).hexdigest()}"'}

    def answer_part(self, data, until=None, **headers):
        """Sends the requested bytes up to `until`, where the connection breaks."""
        first = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        if first >= len(data):
            self.answer(416, Content_Range=f"bytes */{len(data)}", **headers)
            return
        if first:
            headers["Content_Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
        self.answer(206 if first else 200, data[first:until], len(data) - first, **headers)
        if until is not None and until < len(data):
            self.close_connection = True

    def break_off(self, data, **headers):
        """Sends a third of the file with each request."""
        third = -(-len(data) // 3)
        first = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        self.answer_part(data, until=first + third, **headers)

    def __getattr__(self, name):
        if not name.startswith("do_"):
            raise AttributeError(name)
        return lambda: self.answer(404, X_Error_Code="RepoNotFound")

    def serve(self, answer_weights):
        if self.file == "config.json":
            self.answer_config()
        else:
            answer_weights(weights_of())

    # Behaviours.

    def do_plain(self):
        self.serve(lambda data: self.answer_part(data, **self.facts(data)))

    def do_unknown(self):  # a mirror that names no checksum and no commit
        if self.file == "config.json":
            self.answer(200, json.dumps(config_of(self.parts[1])).encode())
        else:
            self.answer_part(weights_of())

    def do_break(self):
        self.serve(lambda data: self.break_off(data, **self.facts(data)))

    def do_etag(self):  # breaks off, and has an ETag instead of a checksum
        def answer(data):
            etag = '"v1"' if self.headers.get("If-Range") in (None, '"v1"') else '"v2"'
            self.break_off(data, ETag=etag)
        self.serve(answer)

    def do_dies(self):  # always breaks off at the same byte
        self.serve(lambda data: self.answer_part(data, until=100_000, **self.facts(data)))

    def do_norange(self):  # breaks off once, and ignores ranges
        def answer(data):
            if self.count == 1:
                self.answer_part(data, until=100_000, **self.facts(data))
            else:
                self.answer(200, data, **self.facts(data))
        self.serve(answer)

    def do_again(self):  # ignores ranges, and always breaks off after 1.5 of 2 MiB
        def answer(_):
            data = weights_of(size=2 << 20)
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            for name, value in self.facts(data).items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(data[:3 << 19])
            self.close_connection = True
        self.serve(answer)

    def do_changes(self):  # other content after the first request
        def answer(data):
            if self.count > 1:
                data = weights_of(seed=2)
            self.answer_part(data, 100_000 if self.count == 1 else None, **self.facts(data))
        self.serve(answer)

    def do_longer(self):  # announces more bytes than it has
        self.serve(lambda data: self.answer_part(data + bytes(50), until=len(data)))

    def do_shorter(self):  # sends more bytes than the Hub announces
        self.serve(lambda data: self.answer(200, data, X_Linked_Size=str(len(data) - 9)))

    def do_endless(self):  # sends no length, and more bytes than the Hub announces
        def answer(data):
            self.send_response(200)
            self.send_header("X-Linked-Size", str(len(data)))
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for _ in range(20):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.serve(answer)

    def do_damaged(self):  # the checksum is not that of the content
        def answer(data):
            self.answer_part(data, **self.facts(data[:-1] + b"\0"))
        self.serve(answer)

    def do_cut(self):  # an incomplete safetensors file without a checksum
        self.serve(lambda data: self.answer_part(data[:200_000]))

    def do_pointer(self):
        text = b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 300080\n"
        self.serve(lambda data: self.answer_part(text))

    def do_storage(self):  # redirects to another server for the weights, as the Hub does
        other = self.server.other.server_port
        self.serve(lambda data: self.answer(
            302, Location=f"http://127.0.0.1:{other}/blob/a/b/model.safetensors",
            **self.facts(data)))

    def do_blob(self):  # the storage
        self.break_off(weights_of(), ETag='"blob"')

    def do_loop(self):
        self.answer(302, Location=self.path)

    def do_file(self):
        self.answer(302, Location="file:///etc/passwd")

    def do_gated(self):
        self.answer(403, X_Error_Code="GatedRepo")

    def do_refused(self):
        self.answer(401, X_Error_Code="RepoNotFound")

    def do_noweights(self):
        self.serve(lambda data: self.answer(404, X_Error_Code="EntryNotFound"))

    def do_busy(self):  # asks once to retry in 1 s
        def answer(data):
            if self.count == 1:
                self.answer(429, Retry_After="1")
            else:
                self.answer_part(data, **self.facts(data))
        self.serve(answer)

    def do_later(self):  # asks to retry in an hour
        self.answer(503, Retry_After="3600")

    def do_fails(self):
        self.answer(500, b"sorry")

    def do_huge(self):
        self.serve(lambda data: self.answer(200, data, 10**16, X_Linked_Size=str(10**16)))

    def do_bigconfig(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for _ in range(1000):
            self.wfile.write(b"10000\r\n%s\r\n" % (b" " * 65536))

    def do_slow(self):  # one piece, then nothing until the file FOLDER/go exists
        def answer(data):
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            for name, value in self.facts(data).items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(data[:100_000])
            self.wfile.flush()
            go = threading.Event()
            for _ in range(600):
                if os.path.exists(f"{FOLDER}/go"):
                    break
                go.wait(0.05)
            self.wfile.write(data[100_000:])
        self.serve(answer)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that ends a connection early is no error; anything else is."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def main():
    servers = [Server(("127.0.0.1", 0), Hub) for _ in range(2)]
    servers[0].other, servers[1].other = servers[1], servers[0]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    open(f"{FOLDER}/expected.safetensors", "wb").write(weights_of())
    open(f"{FOLDER}/changed.safetensors", "wb").write(weights_of(seed=2))
    with open(f"{FOLDER}/ports.new", "w") as ports:
        print(*(server.server_port for server in servers), file=ports)
    os.rename(f"{FOLDER}/ports.new", f"{FOLDER}/ports")
    threading.Event().wait()


main()
