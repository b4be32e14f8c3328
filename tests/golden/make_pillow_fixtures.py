#!/usr/bin/env python3
"""Writes tests/golden/data: small images, and their results in Pillow and torchvision.

Needs Pillow, numpy and torchvision. Pillow 13 resizes some images vertically first; Pillow up to
12.3 never does. So those files exist twice, and the script writes the ones of its Pillow version.
The committed files are of Pillow 9.4 (torchvision 0.14) and 13.0.0 (torchvision 0.26); 11.3, 12.2
and 12.3.0 gave the same files as 9.4. scaled.txt is the same in all versions. images.txt is of
13.0.0: there an index beyond the palette is black, in 9.4 it is the grey of the index. The tests
read only the files, so this runs again only when a case is added.

  images/*              files to decode; existing ones are kept, as encoders change
  images.txt            file width height channels crc(RGB) crc(L); for PIC and HDR, which Pillow
                        does not read, of the pixels of stb_files.py
  upright.txt           file orientation width height crc(RGB) crc(L), of files with that EXIF
                        orientation in place of their own
  scaled.txt            file eighths width height crc(RGB), of JPEGs decoded at eighths/8 of a side
  resample_<order>.txt  seed width height channels filter x0 y0 x1 y1 out_width out_height crc
  eval_<order>.txt      seed width height image_size crop_pct filter crc(float32 CHW)
  light_<order>.txt     seed width height left top crop_width crop_height flip image_size filter
                        crc(float32 CHW)
  center_<order>.txt    seed width height channels image_size crc, of center_cropped()

<order> is pillow12 or pillow13, as in data.resample.

Pixels come from pixel_values(), which fixtures.h repeats; crc is zlib's crc32 of the raw bytes.
"""
import ctypes
import ctypes.util
import io
import os
import pathlib
import random
import struct
import sys
import zlib

import numpy as np
import PIL
from PIL import Image, ImageOps
from torchvision import transforms
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional

import stb_files

HERE = pathlib.Path(__file__).parent / "data"
ORDER = "pillow13" if int(PIL.__version__.split(".")[0]) >= 13 else "pillow12"
FILTERS = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}
MODES = {"bilinear": InterpolationMode.BILINEAR, "bicubic": InterpolationMode.BICUBIC}
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def pixel_values(seed, width, height, channels):
    """[height, width, channels]: noise, black and white, or a gradient with a little noise."""
    y, x, c = np.mgrid[:height, :width, :channels].astype(np.uint64)
    mask = np.uint64(0xFFFFFFFF)
    h = ((y * np.uint64(width) + x) * np.uint64(channels) + c) * np.uint64(2654435761)
    h = (h + np.uint64(seed * 40503)) & mask
    h ^= h >> np.uint64(13)
    h = (h * np.uint64(0x5BD1E995)) & mask
    h ^= h >> np.uint64(15)
    if seed % 3 == 0:
        values = h & np.uint64(255)
    elif seed % 3 == 1:
        values = (h & np.uint64(1)) * np.uint64(255)
    else:
        values = (x * np.uint64(3) + y * np.uint64(5) + c * np.uint64(50)
                  + (h & np.uint64(15))) & np.uint64(255)
    return values.astype(np.uint8)


def image(seed, width, height, channels=3):
    values = pixel_values(seed, width, height, channels)
    return Image.fromarray(values[..., 0] if channels == 1 else values)


def crc(array):
    return zlib.crc32(np.ascontiguousarray(array).tobytes())


# Images to decode.


def jpeg(seed, width, height, mode, **options):
    channels = {"L": 1, "RGB": 3, "CMYK": 4}[mode]
    out = io.BytesIO()
    values = pixel_values(seed, width, height, channels)
    Image.fromarray(values[..., 0] if channels == 1 else values, mode).save(out, "JPEG", **options)
    return out.getvalue()


def with_sampling(data, factors):
    """Declares other sampling factors for the first component, for kinds that Pillow does not
    write. The data stay valid if the size gives as many blocks per MCU and as many MCUs."""
    at = max(data.find(b"\xff\xc0\x00\x11\x08"), data.find(b"\xff\xc2\x00\x11\x08"))
    return data[:at + 11] + bytes([factors]) + data[at + 12:]


def with_adobe_transform(data, transform):
    at = data.index(b"\xff\xee\x00\x0eAdobe")
    return data[:at + 15] + bytes([transform]) + data[at + 16:]


def without_segment(data, start):
    at = data.index(start)
    return data[:at] + data[at + 2 + int.from_bytes(data[at + 2:at + 4], "big"):]


def with_segments(data, *segments):
    """Puts (marker, content) pairs behind the start of a JPEG."""
    return data[:2] + b"".join(struct.pack(">BBH", 255, marker, len(content) + 2) + content
                               for marker, content in segments) + data[2:]


def turbo_jpeg(seed, width, height, **environment):
    """A 4:2:0 JPEG of libjpeg-turbo's encoder with these variables; None without the library."""
    found = ctypes.util.find_library("turbojpeg")
    if not found:
        return None
    library = ctypes.CDLL(found)
    library.tjInitCompress.restype = ctypes.c_void_p
    out, size = ctypes.c_void_p(), ctypes.c_ulong()
    os.environ.update(environment)
    handle = ctypes.c_void_p(library.tjInitCompress())
    values = pixel_values(seed, width, height, 3).tobytes()
    failed = library.tjCompress2(handle, values, width, 3 * width, height, 0, ctypes.byref(out),
                                 ctypes.byref(size), 2, 75, 0)
    for name in environment:
        del os.environ[name]
    assert not failed
    return ctypes.string_at(out, size.value)


def png(width, height, depth, color_type, extra=b"", interlaced=False, colors=None, dark=False):
    rng = random.Random(width * 1000 + depth * 10 + color_type)
    samples = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color_type]

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    def rows(w, h):
        if dark:  # 16-bit values 0 .. 511, no filter
            values = [[rng.randrange(512) for _ in range(w)] for _ in range(h)]
            return b"".join(b"\0" + struct.pack(f">{w}H", *row) for row in values)
        size = (w * samples * depth + 7) // 8
        return b"".join(bytes([rng.randrange(5)]) + rng.randbytes(size) for _ in range(h))

    raw = b""
    if interlaced:
        for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4),
                               (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
            w, h = (width - x0 + dx - 1) // dx, (height - y0 + dy - 1) // dy
            raw += rows(w, h) if w > 0 and h > 0 else b""
    else:
        raw = rows(width, height)
    header = struct.pack(">IIBBBBB", width, height, depth, color_type, 0, 0, int(interlaced))
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    if color_type == 3:
        data += chunk(b"PLTE", rng.randbytes(3 * (colors or 1 << depth)))
    if extra:
        data += chunk(b"tRNS", extra)
    return data + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def bmp(width, height, bits, masks=(), colors=0, top_down=False, header=40, greys=False):
    rng = random.Random(bits * 100 + width)
    stride = (width * bits + 31) // 32 * 4
    entries = (colors or 1 << bits) if bits <= 8 else 0
    palette = rng.randbytes(entries * (3 if header == 12 else 4))
    if greys:
        palette = b"".join(bytes((i, i, i, 0)) for i in range(entries))
    if header == 12:
        head = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        head = struct.pack("<IiiHHIIiiII", header, width, -height if top_down else height, 1, bits,
                           3 if masks else 0, stride * height, 0, 0, colors, 0)
    head += b"".join(struct.pack("<I", m) for m in masks)
    at = 14 + len(head) + len(palette)
    size = at + stride * height
    return (b"BM" + struct.pack("<IHHI", size, 0, 0, at) + head + palette
            + rng.randbytes(stride * height))


def webp(seed, width, height, channels=3, **options):
    out = io.BytesIO()
    Image.fromarray(pixel_values(seed, width, height, channels)).save(out, "WEBP", **options)
    return out.getvalue()


def moving_webp(width, height, *frames):
    """An animation of (x, y, a still WebP) on a canvas; x and y are even."""
    def chunk(kind, data):
        return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)

    def u24(*values):
        return b"".join(struct.pack("<I", value)[:3] for value in values)

    body = chunk(b"VP8X", b"\x12\0\0\0" + u24(width - 1, height - 1))
    body += chunk(b"ANIM", b"\x40\x50\x60\xff" + bytes(2))
    for x, y, still in frames:
        size = Image.open(io.BytesIO(still)).size
        place = u24(x // 2, y // 2, size[0] - 1, size[1] - 1, 100) + b"\0"
        at = still.index(b"ALPH") if b"ALPH" in still else 12
        body += chunk(b"ANMF", place + still[at:])
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def pnm(kind, width, height, largest=None, comment=b""):
    """Binary PBM (4), PGM (5) or PPM (6), with samples that may exceed the largest value."""
    rng = random.Random(width * 100 + height)
    row = (width + 7) // 8 if kind == 4 else width * (3 if kind == 6 else 1)
    size = row * height * (2 if largest and largest > 255 else 1)
    head = b"P%d\n%s%d %d\n" % (kind, comment, width, height)
    return head + (b"%d\n" % largest if largest else b"") + rng.randbytes(size)


def rotated_png(exif):
    out = io.BytesIO()
    image(63, 21, 13).save(out, "PNG", exif=exif)
    return out.getvalue()


def make_image_files():
    exif = Image.Exif()
    exif[0x0112] = 6  # shown rotated by a quarter turn
    yield "gray.jpg", jpeg(2, 37, 29, "L", quality=80)
    yield "444.jpg", jpeg(5, 33, 41, "RGB", quality=85, subsampling=0)
    yield "422.jpg", jpeg(8, 61, 35, "RGB", quality=75, subsampling=1)
    yield "420.jpg", jpeg(11, 67, 51, "RGB", quality=75, subsampling=2)
    yield "420_tiny.jpg", jpeg(3, 3, 2, "RGB", quality=75, subsampling=2)
    yield "440.jpg", with_sampling(jpeg(14, 64, 64, "RGB", quality=70, subsampling=1), 0x12)
    yield "411.jpg", with_sampling(jpeg(17, 64, 64, "RGB", quality=70, subsampling=2), 0x41)
    yield "progressive.jpg", jpeg(20, 70, 45, "RGB", quality=70, progressive=True)
    yield "progressive_gray.jpg", jpeg(23, 45, 46, "L", quality=70, progressive=True)
    yield "rotated.jpg", jpeg(26, 40, 24, "RGB", quality=75, exif=exif)
    cmyk = jpeg(29, 35, 26, "CMYK", quality=80)
    yield "cmyk.jpg", cmyk
    yield "ycck.jpg", with_adobe_transform(cmyk, 2)
    yield "optimized.jpg", jpeg(32, 31, 17, "RGB", quality=60, optimize=True)
    yield "cmyk_unmarked.jpg", without_segment(cmyk, b"\xff\xee\x00\x0eAdobe")
    yield "ycck_progressive.jpg", with_adobe_transform(
        jpeg(35, 50, 43, "CMYK", quality=80, progressive=True), 2)
    colors = jpeg(38, 30, 21, "RGB", quality=80, subsampling=0)
    yield "rgb.jpg", with_segments(without_segment(colors, b"\xff\xe0"),
                                   (0xEE, b"Adobe\0\x64" + bytes(5)))
    yield "restart.jpg", turbo_jpeg(41, 83, 70, TJ_RESTART="1")
    yield "restart_blocks.jpg", turbo_jpeg(44, 59, 38, TJ_RESTART="3B")
    yield "arithmetic.jpg", turbo_jpeg(47, 41, 50, TJ_ARITHMETIC="1")
    yield "arithmetic_progressive.jpg", turbo_jpeg(50, 52, 37, TJ_ARITHMETIC="1",
                                                   TJ_PROGRESSIVE="1")
    yield "segments.jpg", with_segments(
        jpeg(53, 44, 33, "RGB", quality=75), (0xE1, b"Exif\0\0no TIFF"), (0xE2, bytes(300)),
        (0xED, b"Photoshop 3.0"), (0xE1, b"http://ns.adobe.com/xap/1.0/\0<x/>"),
        (0xFE, b"\xff\xd8 a comment"), (0xEF, b"")) + b"tail"
    yield "png_inside.jpg", png(16, 9, 8, 2)
    for depth in (1, 2, 4, 8, 16):
        yield f"gray{depth}.png", png(21, 13, depth, 0)
    yield "gray16_dark.png", png(20, 13, 16, 0, dark=True)
    yield "gray16_key.png", png(9, 7, 16, 0, extra=b"\0\1")
    yield "rgb8.png", png(15, 11, 8, 2)
    yield "rgb16.png", png(15, 11, 16, 2)
    yield "rgb8_interlaced.png", png(23, 19, 8, 2, interlaced=True)
    yield "rgb8_key.png", png(13, 12, 8, 2, extra=bytes(6))
    yield "gray1_interlaced.png", png(22, 17, 1, 0, interlaced=True)
    yield "gray16_interlaced.png", png(11, 17, 16, 0, interlaced=True)
    yield "palette2.png", png(17, 12, 2, 3)
    yield "palette4_interlaced.png", png(21, 15, 4, 3, interlaced=True)
    yield "palette1.png", png(19, 10, 1, 3)
    yield "palette4.png", png(19, 10, 4, 3)
    yield "palette8.png", png(19, 10, 8, 3, extra=b"\0\x80\xff")
    yield "palette8_short.png", png(18, 10, 8, 3, colors=5)
    yield "palette4_short.png", png(17, 11, 4, 3, colors=5)
    yield "gray_alpha8.png", png(14, 12, 8, 4)
    yield "gray_alpha16.png", png(14, 12, 16, 4)
    yield "rotated.png", rotated_png(exif)
    yield "rgba8.png", png(12, 14, 8, 6)
    yield "rgba16.png", png(12, 14, 16, 6, interlaced=True)
    yield "lossy.webp", webp(56, 45, 37, quality=80)
    yield "lossy_tiny.webp", webp(59, 1, 2, quality=80)
    yield "lossy_coarse.webp", webp(61, 70, 51, quality=2)
    yield "lossy_alpha.webp", webp(62, 37, 28, 4, quality=70)
    yield "lossy_rotated.webp", webp(65, 40, 24, quality=75, exif=exif)
    yield "lossless.webp", webp(68, 33, 29, lossless=True)
    yield "lossless_noise.webp", webp(57, 20, 31, lossless=True)
    yield "lossless_two_colors.webp", webp(58, 30, 21, lossless=True)
    yield "lossless_alpha.webp", webp(71, 31, 26, 4, lossless=True, exact=True)
    yield "moving.webp", moving_webp(50, 40, (0, 0, webp(74, 50, 40, quality=75)),
                                     (4, 6, webp(77, 30, 20, quality=75)))
    yield "moving_part.webp", moving_webp(50, 40, (8, 12, webp(80, 21, 17, 4, quality=75)))
    yield "moving_part_lossless.webp", moving_webp(
        50, 40, (20, 0, webp(83, 30, 33, 4, lossless=True, exact=True)))
    yield "color.ppm", pnm(6, 17, 12, 255, b"# a comment\n")
    yield "color_100.ppm", pnm(6, 11, 14, 100)
    yield "color_1000.ppm", pnm(6, 9, 13, 1000)
    yield "color_wide.ppm", pnm(6, 8, 15, 65535)
    yield "gray.pgm", pnm(5, 19, 14, 255)
    yield "gray_7.pgm", pnm(5, 18, 13, 7)
    yield "gray_300.pgm", pnm(5, 13, 17, 300)
    yield "gray_wide.pgm", pnm(5, 12, 21, 65535)
    yield "bits.pbm", pnm(4, 21, 18)
    for bits in (1, 4, 8, 16, 24, 32):
        yield f"{bits}bit.bmp", bmp(13, 9, bits)
    yield "8bit_77_colors.bmp", bmp(13, 9, 8, colors=77)
    yield "8bit_77_greys.bmp", bmp(13, 9, 8, colors=77, greys=True)
    yield "4bit_5_colors.bmp", bmp(13, 9, 4, colors=5)
    yield "8bit_os2.bmp", bmp(13, 9, 8, header=12)
    yield "24bit_top_down.bmp", bmp(13, 9, 24, top_down=True)
    yield "565.bmp", bmp(13, 9, 16, masks=(0xF800, 0x7E0, 0x1F))
    yield "xbgr.bmp", bmp(13, 9, 32, masks=(0xFF000000, 0xFF0000, 0xFF00))
    yield from stb_files.make_gif()
    yield from stb_files.make_tga()
    yield from stb_files.make_psd()


def make_other_files():
    """Files that Pillow does not read, with their RGB pixels."""
    yield from stb_files.make_pic()
    yield from stb_files.make_hdr()


def stored_file(name, data):
    """Returns the bytes of images/<name>. Writes the file first if it does not exist."""
    file = HERE / "images" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        if data is None:
            sys.exit(f"{name} is not there, and making it takes libturbojpeg")
        file.write_bytes(data)
    return file.read_bytes()


def image_files():
    for name, data in make_image_files():
        yield name, stored_file(name, data)


def write_images():
    lines = []

    def add(name, rgb, gray, channels):
        lines.append(f"{name} {rgb.width} {rgb.height} {channels} {crc(rgb)} {crc(gray)}\n")

    for name, data in image_files():
        picture = Image.open(io.BytesIO(data))
        stored = picture.mode
        # The library has three channels for every BMP.
        channels = (1 if stored in ("1", "L", "LA", "I", "I;16") and not name.endswith(".bmp")
                    or name.startswith("gray_alpha") else 3)
        add(name, picture.convert("RGB"), picture.convert("L"), channels)
    for name, data, pixels in make_other_files():
        assert stored_file(name, data) == data
        rgb = Image.fromarray(pixels)
        add(name, rgb, rgb.convert("L"), 3)
    (HERE / "images.txt").write_text("".join(lines))


def with_orientation(data, value):
    """The file with another EXIF orientation."""
    entry = bytes((1, 0x12, 0, 3, 0, 0, 0, 1, 0))  # big-endian, without the last byte of the value
    at = data.index(entry) + len(entry)
    data = data[:at] + bytes([value]) + data[at + 1:]
    chunk = data.find(b"eXIf")
    if chunk > 0:
        end = chunk + 4 + int.from_bytes(data[chunk - 4:chunk], "big")
        data = data[:end] + struct.pack(">I", zlib.crc32(data[chunk:end])) + data[end + 4:]
    return data


def write_upright():
    lines = []
    for name, data in image_files():
        if "rotated" not in name:
            continue
        for value in range(10):  # 0 and 9 are no orientations
            upright = ImageOps.exif_transpose(Image.open(io.BytesIO(with_orientation(data, value))))
            lines.append(f"{name} {value} {upright.width} {upright.height} "
                         f"{crc(upright.convert('RGB'))} {crc(upright.convert('L'))}\n")
    (HERE / "upright.txt").write_text("".join(lines))


def write_scaled():
    lines = []
    for name, data in image_files():
        for eighths in (1, 2, 4):
            picture = Image.open(io.BytesIO(data))
            if picture.format != "JPEG":
                continue
            # Does the work of draft(), at a chosen scale.
            scale = 8 // eighths
            size = tuple((side + scale - 1) // scale for side in picture.size)
            (kind, _, offset, options), = picture.tile
            picture.tile = [(kind, (0, 0, *size), offset, options)]
            picture._size = size
            picture.decoderconfig = (scale, 0)
            lines.append(f"{name} {eighths} {size[0]} {size[1]} {crc(picture.convert('RGB'))}\n")
    (HERE / "scaled.txt").write_text("".join(lines))


# Resizing and whole transforms.


def write_resample():
    rng = random.Random(1)
    lines = []
    for i in range(480):
        limit = (3, 20, 90, 160)[i % 4]
        width, height, out_width, out_height = (rng.randint(1, limit) for _ in range(4))
        out_width = width if i % 13 == 0 else out_width
        out_height = height if i % 17 == 0 else out_height
        channels = 1 if i % 5 == 0 else 3
        name = ("bilinear", "bicubic")[i // 2 % 2]
        box = (0, 0, width, height)
        if i % 3 == 0:  # in 256ths, so that the text is exact
            xs = sorted(rng.sample(range(width * 256 + 1), 2))
            ys = sorted(rng.sample(range(height * 256 + 1), 2))
            box = (xs[0] / 256, ys[0] / 256, xs[1] / 256, ys[1] / 256)
        size = (out_width, out_height)
        result = image(i, width, height, channels).resize(size, FILTERS[name], box)
        fields = (i, width, height, channels, name, *box, *size, crc(result))
        lines.append(" ".join(map(str, fields)) + "\n")
    (HERE / f"resample_{ORDER}.txt").write_text("".join(lines))


def to_float(picture):
    return functional.normalize(functional.to_tensor(picture), MEAN, STD).numpy()


def write_eval():
    rng = random.Random(2)
    lines = []
    for i in range(80):
        width, height = rng.randint(1, 150), rng.randint(1, 150)
        if i % 6 == 0:
            width = height
        image_size = rng.choice((1, 8, 31, 32, 48))
        crop_pct = rng.choice((0.875, 0.9, 0.95, 1.0, 1.25, 0.33))
        if int(image_size / crop_pct) < 1:
            crop_pct = 1.0
        if i % 10 == 0:  # already of the right size
            width = height = image_size
            crop_pct = 1.0
        name = ("bilinear", "bicubic")[i % 2]
        transform = transforms.Compose([
            transforms.Resize(int(image_size / crop_pct), interpolation=MODES[name]),
            transforms.CenterCrop(image_size)])
        result = to_float(transform(image(i, width, height)))
        lines.append(f"{i} {width} {height} {image_size} {crop_pct!r} {name} {crc(result)}\n")
    (HERE / f"eval_{ORDER}.txt").write_text("".join(lines))


def write_light():
    rng = random.Random(3)
    lines = []
    for i in range(60):
        width, height = rng.randint(1, 120), rng.randint(1, 120)
        w, h = rng.randint(1, width), rng.randint(1, height)
        left, top = rng.randint(0, width - w), rng.randint(0, height - h)
        flip, image_size = i % 2, rng.choice((1, 16, 33))
        name = ("bilinear", "bicubic")[i // 2 % 2]
        result = functional.resized_crop(image(i, width, height), top, left, h, w,
                                         [image_size, image_size], MODES[name])
        result = to_float(functional.hflip(result) if flip else result)
        lines.append(f"{i} {width} {height} {left} {top} {w} {h} {flip} {image_size} {name} "
                     f"{crc(result)}\n")
    (HERE / f"light_{ORDER}.txt").write_text("".join(lines))


def center_cropped(whole, size):
    """The crop on which diffusion models are trained."""
    while min(whole.size) >= 2 * size:
        whole = whole.resize(tuple(side // 2 for side in whole.size), Image.BOX)
    scale = size / min(whole.size)
    whole = whole.resize(tuple(round(side * scale) for side in whole.size), Image.BICUBIC)
    left, top = (whole.width - size) // 2, (whole.height - size) // 2
    return whole.crop((left, top, left + size, top + size))


def write_center():
    rng = random.Random(4)
    lines = []
    for i in range(60):
        width, height = rng.randint(1, 150), rng.randint(1, 150)
        size, channels = rng.choice((1, 7, 16, 28, 33)), rng.choice((1, 3))
        if i % 6 == 0:  # already of the right size
            width = height = size
        elif i % 6 == 1:  # only halved
            width, height = 4 * size + rng.randint(0, 3), 4 * size + rng.randint(0, 3)
        result = center_cropped(image(i, width, height, channels), size)
        lines.append(f"{i} {width} {height} {channels} {size} {crc(np.asarray(result))}\n")
    (HERE / f"center_{ORDER}.txt").write_text("".join(lines))


if __name__ == "__main__":
    write_images()
    write_upright()
    write_scaled()
    write_resample()
    write_eval()
    write_light()
    write_center()
