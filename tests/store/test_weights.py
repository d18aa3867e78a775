import hashlib
import json
import os
import pickle
import struct

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scyc.store import weights
from scyc.store.files import Full, Integrity

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
]  # fmt: skip
TENSORS = {
    "weight": torch.tensor([[1.5, -0.0], [float("nan"), float("inf")]]),
    "mask": torch.tensor([True, False, True]),
    "half": torch.tensor([1.0, 2.0], dtype=torch.bfloat16),
    "step": torch.tensor(2**62),
    "none": torch.zeros(0, 3),
}


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    """Equal to the last bit, so that NaN equals itself and -0 differs from 0."""
    return left.keys() == right.keys() and all(
        (a.dtype, a.shape) == (b.dtype, b.shape) and bits(a) == bits(b)
        for a, b in ((left[name], right[name]) for name in left)
    )


def bits(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().contiguous().as_strided((tensor.numel(),), (1,))
    return flat.view(torch.uint8).numpy().tobytes() if len(flat) else b""


def test_the_bytes_are_those_of_the_format(tmp_path):
    weights.save_tensors(tmp_path / "a", {"b": torch.tensor([1, 2], dtype=torch.uint8), "a": torch.tensor(1.0)}, {})
    header = (
        b'{"__metadata__":{},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},'
        b'"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}}     '
    )
    assert len(header) == 128
    assert (tmp_path / "a").read_bytes() == b"\x80" + bytes(7) + header + b"\x00\x00\x80\x3f" + b"\x01\x02"


def test_any_safetensors_reader_opens_the_file(tmp_path):
    sha256 = weights.save_tensors(tmp_path / "a", TENSORS, {"run": "0123456789ab", "cycle": "3"})
    assert same(safetensors.torch.load_file(tmp_path / "a"), TENSORS)
    with safetensors.safe_open(tmp_path / "a", "pt") as file:
        assert file.metadata() == {"run": "0123456789ab", "cycle": "3"}
    assert sha256 == hashlib.sha256((tmp_path / "a").read_bytes()).hexdigest()
    assert same(weights.load_tensors(tmp_path / "a", sha256), TENSORS)


def test_equal_tensors_give_equal_bytes_in_whatever_order(tmp_path):
    turned = {name: TENSORS[name].clone() for name in reversed(TENSORS)}
    fields = {str(n): "x" for n in range(9)}
    assert weights.save_tensors(tmp_path / "a", TENSORS, fields) == weights.save_tensors(tmp_path / "b", turned, fields)


def test_views_gradients_and_shared_memory_are_stored_by_value(tmp_path):
    base = torch.arange(12.0).reshape(3, 4)
    tensors = {
        "t": base.t(),
        "row": base[1],
        "column": base[:, 1],
        "wide": base[:1].expand(3, 4),
        "leaf": torch.ones(2, requires_grad=True),
        "lone": torch.tensor(3.0).expand(1).clone(),  # its stride is 0
    }
    sha256 = weights.save_tensors(tmp_path / "a", tensors, {})
    assert same(weights.load_tensors(tmp_path / "a", sha256), tensors)


def test_loaded_tensors_can_be_written_to(tmp_path):
    sha256 = weights.save_tensors(tmp_path / "a", TENSORS, {})
    loaded = weights.load_tensors(tmp_path / "a", sha256)
    loaded["weight"].zero_()
    assert same({"half": loaded["half"]}, {"half": TENSORS["half"]})
    assert loaded["weight"].sum() == 0


@pytest.mark.parametrize(
    "tensors", [{"a": torch.zeros(1, dtype=torch.complex64)}, {"__metadata__": torch.zeros(1)}], ids=["dtype", "name"]
)
def test_what_cannot_be_stored_is_refused(tmp_path, tensors):
    with pytest.raises(ValueError, match="cannot be stored; rename or convert it"):
        weights.save_tensors(tmp_path / "a", tensors, {})
    assert not (tmp_path / "a").exists()


def test_a_flipped_bit_never_loads(tmp_path, flips):
    path = tmp_path / "a"
    sha256 = weights.save_tensors(path, TENSORS, {"run": "0123456789ab"})
    for place in flips(path):
        with pytest.raises(Integrity, match="expected"):
            print(place, weights.load_tensors(path, sha256))
    assert same(weights.load_tensors(path, sha256), TENSORS)


def test_cut_empty_and_swapped_files_are_refused(tmp_path):
    path = tmp_path / "a"
    sha256 = weights.save_tensors(path, TENSORS, {})
    data = path.read_bytes()
    weights.save_tensors(tmp_path / "b", {**TENSORS, "step": torch.tensor(1)}, {})
    for content in [*(data[: len(data) * percent // 100] for percent in range(100)), (tmp_path / "b").read_bytes()]:
        path.write_bytes(content)
        with pytest.raises(Integrity) as error:
            weights.load_tensors(path, sha256)
        header = data[: 8 + int.from_bytes(data[:8], "little")].rstrip()
        cut = "has " if len(content) >= len(header) else "not a safetensors file"
        said = "sha256 is " if len(content) == len(data) else cut
        assert str(error.value).startswith(f"{path}: {said}")
        assert "\n" not in str(error.value)


def packed(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


HOSTILE = {
    "pickle": pickle.dumps(os.getcwd),
    "endless header": struct.pack("<Q", 2**63) + b"{}",
    "long header": struct.pack("<Q", 99_999_999) + b"{}",
    "not json": packed(b"{]"),
    "deep": packed(b"[" * 100_000),
    "list": packed([]),
    "huge shape": packed({"a": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]}}, bytes(4)),
    "negative": packed({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, bytes(4)),
    "outside": packed({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, bytes(4)),
    "shared": packed({n: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} for n in "ab"}, bytes(4)),
    "strange dtype": packed({"a": {"dtype": "Q9", "shape": [1], "data_offsets": [0, 4]}}, bytes(4)),
    "torchless dtype": packed({"a": {"dtype": "F8_E8M0", "shape": [4], "data_offsets": [0, 4]}}, bytes(4)),
    "too long": packed({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(5)),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_right_checksum_does_not_make_it_a_tensor_file(tmp_path, data):
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(Integrity, match=r"a: (not a safetensors file .*|has [0-9]+ bytes, .*); restore it"):
        weights.load_tensors(tmp_path / "a", hashlib.sha256(data).hexdigest())


def test_a_forged_file_loads_or_is_refused_and_nothing_else_happens(tmp_path, flips):
    path = tmp_path / "a"
    weights.save_tensors(path, TENSORS, {"run": "0123456789ab"})
    refused = 0
    for _ in flips(path):
        try:
            weights.load_tensors(path, hashlib.sha256(path.read_bytes()).hexdigest())
        except Integrity:
            refused += 1
    assert refused > 500


def test_a_full_disk_keeps_the_former_file(tmp_path, faults):
    path = tmp_path / "a"
    sha256 = weights.save_tensors(path, TENSORS, {})
    size = path.stat().st_size

    def job() -> None:
        with pytest.raises(Full, match=f"^{path}: no room for {size} bytes"):
            weights.save_tensors(path, {**TENSORS, "step": torch.tensor(1)}, {})

    for limit in range(0, size, 29):
        assert faults.limited(limit, job) == 0
        assert same(weights.load_tensors(path, sha256), TENSORS)


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """Any bits, in any dtype and shape."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    size = int(np.prod(shape)) * torch.zeros(0, dtype=dtype).element_size()
    data = bytearray(draw(st.binary(min_size=size, max_size=size)))
    if dtype == torch.bool:
        data = bytearray(byte & 1 for byte in data)
    return torch.frombuffer(data, dtype=dtype).reshape(shape) if data else torch.zeros(shape, dtype=dtype)


@settings(deadline=None, max_examples=50)
@given(
    st.dictionaries(st.text(st.characters(codec="utf-8")).filter(lambda n: n != "__metadata__"), tensors(), max_size=4)
)
def test_whatever_is_written_is_read(tmp_path_factory, named):
    path = tmp_path_factory.mktemp("weights") / "a"
    assert same(weights.load_tensors(path, weights.save_tensors(path, named, {"a": "ü"})), named)
    assert same(safetensors.torch.load_file(path), named)
