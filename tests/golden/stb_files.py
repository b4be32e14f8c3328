"""Writes small GIF, TGA, PSD, PIC and HDR files for make_pillow_fixtures.py.

Pillow does not read PIC and HDR. For these, make_* also returns the expected RGB pixels.
"""
import random
import struct

import numpy as np


def noise(name, size):
    return random.Random(name).randbytes(size)


# GIF


def lzw(indices, bits):
    """The codes of GIF, cleared when the table is full."""
    clear, value, used, out = 1 << bits, 0, 0, bytearray()
    table, following, size = {}, clear + 2, bits + 1

    def put(code):
        nonlocal value, used
        value, used = value | code << used, used + size
        while used >= 8:
            out.append(value & 255)
            value, used = value >> 8, used - 8

    put(clear)
    text = indices[:1]
    code_of = lambda text: table.get(text, text[0])
    for index in indices[1:]:
        longer = text + bytes([index])
        if longer in table:
            text = longer
            continue
        put(code_of(text))
        table[longer] = following
        following += 1
        if following > 1 << size:
            size += 1
        if following == 4096:
            put(clear)
            table, following, size = {}, clear + 2, bits + 1
        text = bytes([index])
    put(code_of(text))
    if following == 1 << size and size < 12:
        size += 1
    put(clear + 1)
    return bytes(out) + bytes([value & 255])


def blocks(data):
    pieces = [data[at:at + 255] for at in range(0, len(data), 255)]
    return b"".join(bytes([len(piece)]) + piece for piece in pieces) + b"\0"


def gif_palette(name, bits, greys):
    if greys:
        return b"".join(bytes((i, i, i)) for i in range(1 << bits))
    return noise(name, 3 << bits)


def gif(name, canvas, frame=None, bits=8, colors=8, local=None, transparent=None, interlaced=False,
        greys=False, version=b"89a"):
    """One frame (x, y, width, height). `colors` and `local` are the bits of the two palettes."""
    x, y, width, height = frame or (0, 0, *canvas)
    data = b"GIF" + version + struct.pack("<HH", *canvas)
    data += struct.pack("<BBB", 0x80 | colors - 1 if colors else 0, 3, 0)
    data += gif_palette(name, colors, greys) if colors else b""
    if transparent is not None:
        data += b"!\xf9\4" + struct.pack("<BHB", 1, 0, transparent) + b"\0"
    data += b"," + struct.pack("<HHHH", x, y, width, height)
    data += bytes([(0x80 | local - 1 if local else 0) | (0x40 if interlaced else 0)])
    data += gif_palette(name + "local", local, greys) if local else b""
    indices = bytes(value >> 8 - bits for value in noise(name + "pixels", width * height))
    return data + bytes([bits]) + blocks(lzw(indices, bits)) + b";"


def make_gif():
    yield "palette8.gif", gif("a", (31, 22))
    yield "palette2.gif", gif("b", (17, 13), bits=2, colors=2, version=b"87a")
    yield "clears.gif", gif("c", (83, 71))
    yield "transparent.gif", gif("d", (19, 14), bits=4, colors=4, transparent=7)
    yield "interlaced.gif", gif("e", (21, 27), bits=5, colors=5, interlaced=True)
    yield "interlaced_low.gif", gif("f", (33, 3), bits=5, colors=5, interlaced=True)
    yield "part.gif", gif("g", (30, 25), (4, 9, 15, 11))
    yield "part_transparent.gif", gif("h", (30, 25), (15, 0, 15, 20), transparent=99)
    yield "beyond.gif", gif("i", (10, 30), (5, 8, 20, 12))
    yield "local.gif", gif("j", (18, 12), bits=4, colors=3, local=4)
    yield "local_alone.gif", gif("k", (18, 12), bits=6, colors=0, local=6)
    yield "short.gif", gif("l", (20, 11), bits=8, colors=5)
    yield "grey.gif", gif("m", (20, 11), greys=True)
    yield "grey_short.gif", gif("n", (20, 11), colors=4, greys=True)
    yield "no_palette.gif", gif("o", (23, 9), colors=0)


# TGA


def tga(name, kind, bits, size, run_lengths=False, descriptor=0, entries=(0, 0, 0), text=b""):
    """`entries` of a colour map: first index, count, bits."""
    rng = random.Random(name)
    width, height = size
    data = struct.pack("<BBBHHBHHHHBB", len(text), entries[1] > 0, kind + 8 * run_lengths, *entries,
                       0, 0, width, height, bits, descriptor)
    data += text + rng.randbytes(entries[1] * entries[2] // 8)
    if not run_lengths:
        return data + rng.randbytes(width * height * bits // 8)
    for _ in range(height):
        left = width
        while left > 0:
            count = rng.randint(1, min(left, 9))
            run = rng.random() < 0.5
            data += bytes([count - 1 + 128 * run]) + rng.randbytes((1 if run else count) * bits // 8)
            left -= count
    return data


def make_tga():
    yield "gray8.tga", tga("a", 3, 8, (13, 9))
    yield "gray8_runs.tga", tga("b", 3, 8, (29, 9), run_lengths=True, descriptor=0x20)
    yield "gray_alpha8.tga", tga("c", 3, 16, (13, 9), descriptor=8)
    yield "rgb5.tga", tga("d", 2, 16, (12, 10), text=b"a text")
    yield "rgb5_runs.tga", tga("e", 2, 16, (28, 10), run_lengths=True)
    yield "rgb8.tga", tga("f", 2, 24, (11, 8))
    yield "rgb8_top_down.tga", tga("g", 2, 24, (11, 8), descriptor=0x20)
    yield "rgb8_mirrored.tga", tga("h", 2, 24, (11, 8), descriptor=0x10)
    yield "rgba8.tga", tga("i", 2, 32, (9, 11), descriptor=0x28)
    yield "rgba8_runs.tga", tga("j", 2, 32, (25, 11), run_lengths=True, descriptor=0x38)
    yield "map16.tga", tga("k", 1, 8, (14, 12), entries=(0, 256, 16))
    yield "map24.tga", tga("l", 1, 8, (14, 12), entries=(0, 256, 24), text=b"text")
    yield "map24_runs.tga", tga("m", 1, 8, (30, 12), run_lengths=True, entries=(0, 256, 24))
    yield "map24_short.tga", tga("n", 1, 8, (14, 12), entries=(40, 100, 24))
    yield "map32.tga", tga("o", 1, 8, (14, 12), entries=(0, 256, 32), descriptor=0x20)


# PSD


def pack_bits(row):
    data, at = b"", 0
    while at < len(row):
        end = at + 1
        while end < len(row) and row[end] == row[at] and end - at < 128:
            end += 1
        if end - at > 1:
            data += bytes([257 - (end - at), row[at]])
        else:
            end = min(at + 5, len(row))
            data += bytes([128, end - at - 1]) + row[at:end]  # 128 means nothing
        at = end
    return data


def psd(name, mode, channels, size, run_lengths=False):
    rng = random.Random(name)
    width, height = size
    data = b"8BPS" + struct.pack(">H6xHIIHH", 1, channels, height, width, 8, mode)
    colors = rng.randbytes(768) if mode == 2 else b""
    data += struct.pack(">I", len(colors)) + colors
    data += struct.pack(">I4sHHI", 12, b"8BIM", 1000, 0, 0)  # a resource
    data += struct.pack(">II", 4, 0) + struct.pack(">H", run_lengths)
    rows = [rng.randbytes(width - 7) + rng.randbytes(1) * 7 for _ in range(channels * height)]
    if run_lengths:
        rows = [pack_bits(row) for row in rows]
        data += b"".join(struct.pack(">H", len(row)) for row in rows)
    return data + b"".join(rows)


def make_psd():
    yield "gray8.psd", psd("a", 1, 1, (15, 9))
    yield "gray8_runs.psd", psd("b", 1, 1, (15, 9), run_lengths=True)
    yield "gray_alpha8.psd", psd("c", 1, 2, (15, 9))
    yield "duotone.psd", psd("d", 8, 1, (16, 8))
    yield "indexed.psd", psd("e", 2, 1, (17, 7))
    yield "rgb8.psd", psd("f", 3, 3, (13, 8))
    yield "rgb8_runs.psd", psd("g", 3, 3, (13, 8), run_lengths=True)
    yield "rgba8.psd", psd("h", 3, 4, (13, 8))
    yield "rgba8_runs.psd", psd("i", 3, 4, (13, 8), run_lengths=True)
    yield "cmyk.psd", psd("j", 4, 4, (14, 9))
    yield "cmyk_runs.psd", psd("k", 4, 4, (14, 9), run_lengths=True)


# Softimage PIC


def pic_runs(values, mixed):
    """A row of pixels [width, channels] as runs, with plain values between them if `mixed`."""
    data, at = b"", 0
    while at < len(values):
        end = at + 1
        while end < len(values) and (values[end] == values[at]).all() and end - at < 127:
            end += 1
        if not mixed:
            data += bytes([end - at]) + values[at].tobytes()
        elif end - at > 9:  # as a long run
            data += b"\x80" + struct.pack(">H", end - at) + values[at].tobytes()
        elif end - at > 1:
            data += bytes([end - at + 127]) + values[at].tobytes()
        else:
            data += b"\0" + values[at].tobytes()
        at = end
    return data


def pic(name, size, packets):
    """`packets`: (kind, first channel, channels) for each part of a row."""
    rng = np.random.default_rng(list(name.encode()))
    width, height = size
    values = np.repeat(rng.integers(0, 256, (height, width, 4), np.uint8), 3, 1)[:, :width]
    values[0, :] = values[0, 0]
    data = b"\x53\x80\xf6\x34" + struct.pack(">f", 3.7) + b"a comment".ljust(80, b"\0") + b"PICT"
    data += struct.pack(">HHfHH", width, height, 1, 3, 0)
    for i, (kind, first, channels) in enumerate(packets):
        mask = sum(0x80 >> c for c in range(first, first + channels))
        data += bytes([i + 1 < len(packets), 8, kind, mask])
    for row in values:
        for kind, first, channels in packets:
            part = np.ascontiguousarray(row[:, first:first + channels])
            data += pic_runs(part, kind == 2) if kind else part.tobytes()
    return data, values[..., :3]


def make_pic():
    yield "plain.pic", *pic("a", (14, 9), [(0, 0, 3)])
    yield "runs.pic", *pic("b", (23, 8), [(1, 0, 3)])
    yield "mixed.pic", *pic("c", (31, 7), [(2, 0, 3)])
    yield "mixed_alpha.pic", *pic("d", (25, 8), [(2, 0, 3), (1, 3, 1)])
    yield "apart.pic", *pic("e", (18, 6), [(0, 0, 1), (1, 1, 1), (2, 2, 2)])


# Radiance HDR


def hdr_row(row):
    """A row [width, 4] as run lengths."""
    data = b"\2\2" + struct.pack(">H", len(row))
    for component in row.T:
        at = 0
        while at < len(component):
            end = at + 1
            while end < len(component) and component[end] == component[at] and end - at < 127:
                end += 1
            run = end - at > 2
            if not run:
                end = min(at + 4, len(component))
            data += bytes([end - at + 128 * run]) + component[at:at + 1 if run else end].tobytes()
            at = end
    return data


def hdr(name, size, signature=b"#?RADIANCE", run_lengths=True):
    rng = np.random.default_rng(list(name.encode()))
    width, height = size
    rgbe = rng.integers(0, 256, (height, width, 4), np.uint8)
    rgbe[..., 3] = np.repeat(rng.integers(118, 132, (height, width)), 4, 1)[:, :width]
    rgbe[0, :2, 3] = 0, 255  # black and white
    rgbe[0, 0, :3] = 130, 0, 7  # not the mark of run lengths
    data = signature + b"\n# a comment\nEXPOSURE=2.0\nFORMAT=32-bit_rle_rgbe\n\n"
    data += b"-Y %d +X %d\n" % (height, width)
    data += b"".join(map(hdr_row, rgbe)) if run_lengths else rgbe.tobytes()
    exponents = rgbe[..., 3:].astype(np.float64)
    values = np.where(exponents > 0, rgbe[..., :3] * 2.0 ** (exponents - 136), 0)
    return data, np.minimum(255, np.floor(255 * values ** (1 / 2.2) + 0.5)).astype(np.uint8)


def make_hdr():
    yield "runs.hdr", *hdr("a", (37, 9))
    yield "runs_rgbe.hdr", *hdr("b", (300, 3), b"#?RGBE")
    yield "flat.hdr", *hdr("c", (21, 8), run_lengths=False)
    yield "narrow.hdr", *hdr("d", (7, 12), run_lengths=False)
