"""GPU architectures by their names in CMake. 80-real is machine code, 90-virtual is text that newer
GPUs compile, 90 is both. A letter behind the number restricts the GPUs: 90a runs on compute
capability 9.0 alone, 100f on 10.0 and its successors 10.x."""
import re

from .errors import CannotRun

NAME = re.compile(r"(\d+)(\d)([af]?)(-real|-virtual)?")


def for_capability(capability):
    """Returns the architecture that uses all features of a GPU: 90a for compute capability 9.0."""
    return {"9.0": "90a"}.get(capability, capability.replace(".", "")) + "-real"


def fits(name, capability):
    """Returns True if code for an architecture runs on a GPU."""
    if name in ("all", "all-major"):
        return True
    match = NAME.fullmatch(name)
    if not match:
        raise CannotRun(f"{name!r} is not a GPU architecture")
    major, minor, letter, kind = match.groups()
    built, card = (int(major), int(minor)), tuple(map(int, capability.split(".")))
    if letter == "a":
        return built == card
    if letter == "f" or kind == "-real":
        return built[0] == card[0] and built[1] <= card[1]
    return built <= card


def require(built, capability, card, remedy):
    """Raises CannotRun if no architecture of a list fits the GPU. `remedy` is a sentence."""
    if not any(fits(name, capability) for name in filter(None, built.split(";"))):
        raise CannotRun(f"the programs are built for {built}, which do not run on this {card} of "
                        f"compute capability {capability}; {remedy}")


def flags(names):
    """Returns nvcc's options for a list, each architecture once, as CMake passes them."""
    if names in ("all", "all-major"):
        return [f"-arch={names}"]
    codes = []
    for name in filter(None, names.split(";")):
        number, _, kind = name.partition("-")
        code = [f"compute_{number}"] * (kind != "real") + [f"sm_{number}"] * (kind != "virtual")
        codes.append(f"-gencode=arch=compute_{number},code=[{','.join(code)}]")
    return list(dict.fromkeys(codes))
