import pickle
from pathlib import Path

import pytest
from tiny_files import PIXELS, python_batch

from scyc.data import DataError
from scyc.data.pickled import batch


def test_a_python_2_batch_is_read() -> None:
    pixels, labels = batch(python_batch("test_batch"), "here")
    assert pixels.shape == (2, 3072)
    assert pixels.tobytes() == PIXELS["test_batch"]
    assert labels.tolist() == [3, 8]


def test_the_batches_of_these_tests_are_what_pickle_and_numpy_read() -> None:
    entries = pickle.loads(python_batch("data_batch_1").replace(b"numpy.core", b"numpy._core"), encoding="bytes")
    assert entries[b"data"].tobytes() == PIXELS["data_batch_1"]
    assert entries[b"labels"] == [6, 9]


def test_code_named_in_a_file_is_neither_imported_nor_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    attack = b"cos\nsystem\n(U" + bytes((len(f"touch {mark}"),)) + f"touch {mark}".encode() + b"tR."
    with pytest.raises(DataError, match=r"here is not a CIFAR-10 batch: .*it asks for os\.system"):
        batch(b"\x80\x02" + attack, "here")
    assert not mark.exists()
    pickle.loads(b"\x80\x02" + attack, encoding="latin1")  # the attack is a real one
    assert mark.exists()


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", "EOFError"),
        (b"no pickle", "UnpicklingError"),
        (python_batch("test_batch")[:-100], "here is not a CIFAR-10 batch"),
        (python_batch("test_batch", module=b"numpy.core.numeric"), "asks for numpy.core.numeric._reconstruct"),
        (python_batch("test_batch", dtype=b"f4"), "an array in it is not of bytes"),
        (python_batch("test_batch").replace(b"labels", b"fables"), "KeyError"),
        (python_batch("test_batch").replace(b"K\x03K\x08e", b"NNe"), "or its labels no integers"),
        (b"\x80\x02}(U\x04data](K\x01eU\x06labels](K\x01eu.", "its data are no array"),
        (b"\x80\x02K\x07Q.", "refers to objects outside the file"),
        (b"\x80\x02cnumpy\nndarray\n)R.", "not callable"),
    ],
)
def test_any_other_content_is_one_line(content: bytes, line: str) -> None:
    with pytest.raises(DataError, match=line) as error:
        batch(content, "here")
    assert "\n" not in str(error.value)
