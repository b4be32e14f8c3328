"""Compares two metrics.jsonl except for the speed; every (step, split) may appear once."""
import json
import sys


def read(path):
    lines, seen = [], set()
    for number, text in enumerate(open(path), 1):
        line = json.loads(text)
        line.pop("images_per_second", None)
        key = line["step"], line.get("split")
        if key in seen:
            sys.exit(f"{path}:{number}: step {key[0]} ({key[1] or 'train'}) is there twice")
        seen.add(key)
        lines.append(line)
    return lines


found, wanted = (read(path) for path in sys.argv[1:3])
for a, b in zip(found, wanted):
    if a != b:
        sys.exit(f"found    {a}\nexpected {b}")
if len(found) != len(wanted):
    sys.exit(f"found {len(found)} lines, expected {len(wanted)}")
if not wanted:
    sys.exit("the metrics are empty")
