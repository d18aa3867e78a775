import re

import pytest

from scyc.data import DATASETS
from scyc.data.cifar import BINARY
from scyc.data.idx import FASHION_MNIST, MNIST
from scyc.data.sources import SOURCES, TINY_MEMBERS


def test_what_can_be_got_can_be_read_and_checked() -> None:
    assert set(SOURCES) == {"fashion-mnist", "mnist", "cifar10", "imagenet200"} <= set(DATASETS)


@pytest.mark.parametrize("name", SOURCES)
def test_every_remote_file_has_an_address_a_size_and_a_checksum(name: str) -> None:
    for remote in SOURCES[name].remotes:
        assert re.fullmatch(r"https?://[\w.~/-]+\.(gz|zip)", remote.url)
        assert remote.size > 4_000
        assert re.fullmatch("[0-9a-f]{32}", remote.md5)
        assert remote.name == remote.url.split("/")[-1]


def test_files_go_to_the_folder_and_names_their_reader_looks_for() -> None:
    for name, known in (("fashion-mnist", FASHION_MNIST), ("mnist", MNIST)):
        assert SOURCES[name].folder == known.folders[0]
        assert {remote.name for remote in SOURCES[name].remotes} == {f"{file}.gz" for file in known.files}
    assert SOURCES["cifar10"].folder == BINARY.folder
    assert [remote.name for remote in SOURCES["cifar10"].remotes] == [BINARY.archive]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("wnids.txt", True),
        ("words.txt", True),
        ("train/n01443537/n01443537_boxes.txt", True),
        ("train/n01443537/images/n01443537_499.JPEG", True),
        ("val/val_annotations.txt", True),
        ("val/images/val_9999.JPEG", True),
        ("test/images/test_0.JPEG", False),  # without labels
        ("train/n01443537/images/n01629819_0.JPEG", False),
        ("train/../images/n01443537_0.JPEG", False),
        ("train/n01443537/images/", False),
        ("../wnids.txt", False),
        ("wnids.txt\n", False),
    ],
)
def test_only_the_published_members_are_unpacked(name: str, wanted: bool) -> None:
    assert bool(TINY_MEMBERS.fullmatch(f"tiny-imagenet-200/{name}")) == wanted
