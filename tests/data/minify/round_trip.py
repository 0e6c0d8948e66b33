"""Writes tensors as source and reads them again: ``python round_trip.py`` prints what is not the same to the bit."""

import base64
import zlib

import torch

from cpulab.minify import capture, standalone

NAN_WITH_PAYLOAD = torch.tensor([0x7FC00001, -1, 0x7F800000, 0x7F800001], dtype=torch.int32).view(torch.float32)
SPECIAL = torch.tensor([0.1, -0.0, 0.0, float("nan"), float("inf"), -float("inf"), 1e-45, 3.4e38])

TENSORS = {
    "special": SPECIAL,
    "nan with payload": NAN_WITH_PAYLOAD,
    "negative nan in bfloat16": torch.tensor([-64, 0x7FC1], dtype=torch.int16).view(torch.bfloat16),
    "half": SPECIAL.half(),
    "double": SPECIAL.double() / 3,
    "float8": torch.tensor([0.5, -0.0, 448.0, float("nan")]).to(torch.float8_e4m3fn),
    "complex": torch.complex(SPECIAL, SPECIAL.flip(0)),
    "bool": torch.tensor([True, False, True]),
    "int64": torch.tensor([-(2**63), 2**63 - 1, 2**53 + 1]),
    "uint64": torch.tensor([-1, 1], dtype=torch.int64).view(torch.uint64),
    "uint8": torch.arange(256, dtype=torch.uint8),
    "scalar": torch.tensor(float("nan")),
    "empty": torch.empty(0, 3),
    "transposed": torch.randn(4, 3).t(),
    "every other, from the third": torch.randn(40)[2::2],
    "expanded": torch.randn(5, 1).expand(5, 7),
    "expanded scalar": torch.tensor(-0.0).expand(1000, 1000),
    "channels last": torch.randn(2, 3, 2, 2).to(memory_format=torch.channels_last),
    "overlapping": torch.randn(9).as_strided((4, 4), (1, 1)),
    "constant": torch.full((1000, 30), -0.0),
    "constant nan": torch.full((3000,), float("nan")),
    "large": torch.randn(3000),
    "large and complex": torch.randn(400, 2, dtype=torch.complex128),
    "large and bool": torch.rand(70, 70).t() > 0.5,
    "large bfloat16 with a nan": torch.cat([torch.randn(600), SPECIAL]).bfloat16().reshape(-1, 8).t(),
    "conjugate": torch.randn(4, dtype=torch.complex64).conj(),
}


def bits(tensor):
    raw = capture.storage_of(tensor).contiguous()
    raw = torch.view_as_real(raw) if raw.is_complex() else raw
    return raw.reshape(-1).view(torch.uint8)


def difference(one, other):
    for name in ("shape", "dtype"):
        if getattr(one, name) != getattr(other, name):
            return name
    if one.stride() != other.stride() and one.numel():
        return f"strides {one.stride()} {other.stride()}"
    if one.storage_offset() != other.storage_offset():
        return "storage offset"
    return None if torch.equal(bits(one), bits(other)) else "bits"


if __name__ == "__main__":
    for name, tensor in TENSORS.items():
        copies = {"copied": capture.copied(tensor)}
        lines = standalone._assignment("again", standalone.written(tensor))
        namespace = {"torch": torch, "base64": base64, "zlib": zlib}
        exec("\n".join(line.removeprefix("    ") for line in lines), namespace)
        copies["written"] = namespace["again"]
        copies["generated"] = eval(standalone.generated(tensor)) if tensor.numel() else tensor
        for how, again in copies.items():
            found = difference(tensor, again)
            if found is not None and not (how == "generated" and found == "bits"):
                print(f"{name}, {how}: {found}")
    print("done")
