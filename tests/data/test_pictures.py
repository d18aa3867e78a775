import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny_files import picture

from scyc.data import DataError
from scyc.data.pictures import decoded, header, pictures

RED, BLUE = (255, 0, 0), (0, 0, 255)


def test_pictures_are_found_at_any_depth_sorted_and_nothing_else_is(tmp_path: Path) -> None:
    for name in ("b.PNG", "deep/a.png", "a.jpeg", ".hidden.png"):
        picture(tmp_path / name, RED)
    (tmp_path / "notes.txt").write_text("no picture")
    (tmp_path / "folder.png").mkdir()
    assert [str(file.relative_to(tmp_path)) for file in pictures(tmp_path)] == ["a.jpeg", "b.PNG", "deep/a.png"]


def test_channels_come_before_rows(tmp_path: Path) -> None:
    pixels = np.arange(2 * 4 * 3, dtype=np.uint8).reshape(2, 4, 3)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    tensor = decoded([tmp_path / "a.png"], "RGB", (4, 2))
    assert tensor.shape == (1, 3, 2, 4)
    assert tensor[0, :, 1, 2].tolist() == pixels[1, 2].tolist()


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGBA", "LA", "CMYK", "RGB"])
def test_every_8_bit_mode_becomes_colour(tmp_path: Path, mode: str) -> None:
    file = tmp_path / ("a.tiff" if mode == "CMYK" else "a.png")
    Image.new("RGB", (2, 2), (255, 255, 255)).convert(mode).save(file)
    assert decoded([file], "RGB", (2, 2)).unique().tolist() == [255]


def test_fitting_crops_the_middle_then_resizes(tmp_path: Path) -> None:
    wide = Image.new("RGB", (12, 4), RED)
    wide.paste(BLUE, (2, 0, 10, 4))  # wider than the middle: a resize also looks at its neighbours
    wide.save(tmp_path / "a.png")
    tensor = decoded([tmp_path / "a.png"], "RGB", (2, 2), fit=True)
    assert tensor[0].flatten(1).unique(dim=1).flatten().tolist() == list(BLUE)


def test_another_size_is_an_error_where_nothing_is_fitted(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.png is 8x8 pixels, not 4x8"):
        decoded([picture(tmp_path / "a.png", RED)], "RGB", (4, 8))


def test_more_than_8_bits_are_not_cut(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.png has more than 8 bits per channel \(I;16\)"):
        header(picture(tmp_path / "a.png", 300, mode="I;16"))


@pytest.mark.parametrize("content", [b"", b"no picture", b"\x89PNG\r\n\x1a\n" + bytes(30)])
def test_what_is_no_picture_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.png is no picture") as error:
        header(tmp_path / "a.png")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("suffix", [".png", ".JPEG"])
def test_a_truncated_picture_is_one_line(tmp_path: Path, suffix: str) -> None:
    file = picture(tmp_path / f"a{suffix}", RED, (64, 64))
    file.write_bytes(file.read_bytes()[: -len(file.read_bytes()) // 3])
    with pytest.raises(DataError, match="cannot be decoded"):
        decoded([file], "RGB", (64, 64))


def test_a_picture_of_absurd_extent_is_refused_unread(tmp_path: Path) -> None:
    file = picture(tmp_path / "a.png", RED)
    content = file.read_bytes()
    described = b"IHDR" + b"\x00\x01\x86\xa0" * 2 + content[24:29]  # 100,000 x 100,000
    file.write_bytes(content[:12] + described + zlib.crc32(described).to_bytes(4, "big") + content[33:])
    with pytest.raises(DataError, match=r"a\.png is no picture: .*exceeds limit"):
        header(file)
