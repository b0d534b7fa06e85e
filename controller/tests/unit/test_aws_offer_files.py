"""Offer files that cannot be used, and the index that is kept of one that can."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import ijson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from offer_files import OfferFile, write_large

from vcrecovery.cost.aws_offers import AwsOffers
from vcrecovery.errors import UsageError

GOOD = OfferFile().machine(reserved={("1yr", "standard", "All Upfront"): ("0", "876")}).machine("t3.nano", "0.006")
TEXT = GOOD.text


def source(
    path: Path, tell: Callable[[str], object] = str, region: str = "eu-central-1", system: str = "Linux"
) -> AwsOffers:
    """Its cache is the folder `cache` beside it."""
    return AwsOffers(path, region, system, path.parent / "cache", lambda said: (tell(said), None)[1])


def price(found: AwsOffers) -> str:
    offer = found.machine("m5.large", "on-demand")
    assert offer is not None
    return f"{offer.prices[0].amount:f}"


def kept(path: Path) -> list[str]:
    folder = path.parent / "cache"
    return sorted(os.listdir(folder)) if folder.is_dir() else []  # noqa: PTH208


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return GOOD.write(tmp_path / "offers.json")


def refused(found: AwsOffers, path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        found.machine("m5.large", "on-demand")
    assert str(path) in caught.value.message
    assert caught.value.hint
    assert "\n" not in str(caught.value)
    assert kept(path) == []
    return str(caught.value)


DEEP = '{"a":' * 50 + "1" + "}" * 50


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        (TEXT[: len(TEXT) // 2], "is cut off after [0-9,]+ bytes; download AWS's index.json again"),
        (TEXT.rstrip().rstrip("}"), "is cut off"),
        ("hello", "is not JSON"),
        (TEXT + "x", "is not JSON"),
        (TEXT.replace('"0.1150000000"', "NaN"), "is not JSON"),
        ('"FormatVersion","v1.0"\n', "as a whole is no mapping; download AWS's index.json again"),
        ("[]", "another form than AWS's: as a whole is no mapping"),
        ("{}", "is no offer file, not that of AmazonEC2"),
        (TEXT.replace('"v1.0"', '"v2.0"'), "of format 'v2.0', and 'v1.0' is known"),
        (TEXT.replace('"offerCode" : "AmazonEC2"', '"offerCode" : "AmazonS3"'), "the offer file of 'AmazonS3'"),
        (TEXT.replace('"products"', '"versions"'), "it has no products"),
        (re.sub(r'"products" : \{', '"products" : 1, "x" : {', TEXT), "products is no mapping"),
        (TEXT.replace('"2026-11-20T12:00:00Z"', '"today"'), "its publicationDate is 'today'"),
        (TEXT.replace('"0.1150000000"', '"-0.1"'), "of m5.large .SKU '0{16}'. it has no price .* -0.1 is below zero"),
        (TEXT.replace('"0.1150000000"', '"1e12"'), "of m5.large .* more than 1,000,000,000"),
        (TEXT.replace('"0.1150000000"', '"free"'), "of m5.large .* 'free' is no price"),
        (TEXT.replace('"0.1150000000"', DEEP), "is nested too deeply"),
        (TEXT.replace('"0.1150000000"', "1" * 5000), "is not JSON"),
        (TEXT.replace('"0.1150000000"', "1e" + "9" * 30), "is not JSON"),
        (TEXT.replace('"USD"', '"dollars"'), "'dollars' is no currency"),
        (TEXT.replace('"Hrs"', '"days"').replace('"876"', '"0"'), "has no price of a machine with Linux"),
    ],
)
def test_a_file_that_cannot_be_used(text: str, why: str, path: Path) -> None:
    path.write_text(text)
    assert re.search(why, refused(source(path), path))


def test_terms_before_the_products(path: Path) -> None:
    head, products, terms = re.split(r'(?="products"|"terms")', TEXT)
    end = ',\n  "attributesList" : {}\n}'
    path.write_text(head + terms.removesuffix(end) + ", " + products.rstrip().rstrip(",") + "}")
    assert "its terms come before them" in refused(source(path), path)


def test_what_it_has_beside_is_passed_over(path: Path) -> None:
    """However much that is: nothing of it is kept."""
    path.write_text(TEXT.replace('"attributesList" : {}', f'"more" : {DEEP}, "list" : [[1], {{}}]'))
    assert price(source(path)) == "0.115"


def test_a_compressed_one(path: Path) -> None:
    path.write_bytes(gzip.compress(TEXT.encode()))
    assert "is compressed; unpack it with `gunzip`" in refused(source(path), path)


def test_what_is_no_file(tmp_path: Path) -> None:
    assert "No such file" in refused(source(tmp_path / "none"), tmp_path / "none")
    assert "is no file" in refused(source(tmp_path), tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "is no file" in refused(source(tmp_path / "pipe"), tmp_path / "pipe")
    # Reading its beginning fails.
    memory = Path("/proc/self/mem")
    assert "cannot be read: Input/output error" in refused(source(memory), memory)


def test_a_region_and_a_system_that_it_does_not_have(path: Path) -> None:
    said = refused(source(path, region="eu-centrl-1"), path)
    assert "nothing in the region 'eu-centrl-1' (known: eu-central-1; did you mean eu-central-1?)" in said
    said = refused(source(path, system="Linus"), path)
    assert "no machine with 'Linus' in eu-central-1 (known: Linux; did you mean Linux?)" in said


@pytest.mark.parametrize("text", [TEXT, TEXT[:-50]])
def test_a_file_that_changes_while_it_is_read(text: str, path: Path) -> None:
    """The download may still go on: then a file that seems cut off is not."""
    path.write_text(text)

    def write_on(_: str) -> None:
        with path.open("a") as file:
            file.write("   ")

    assert "has changed while it was read; run this again" in refused(source(path, write_on), path)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, len(TEXT)), taken=st.integers(0, 40), put=st.text('{}[],:"0-9eE.x\\ \x00', max_size=3))
def test_whatever_is_wrong_is_said_in_a_line(at: int, taken: int, put: str, path: Path) -> None:
    path.write_text(TEXT[:at] + put + TEXT[at + taken :])
    found = source(path)
    try:
        found.machine("m5.large", "on-demand")
        found.fitting(1, 1, "on-demand")
    except UsageError as error:
        said = str(error)
    else:
        said = ""
    assert "\n" not in said


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From then on, reading an offer file fails the test."""

    def fail(*_: object, **__: object) -> Iterator[object]:
        pytest.fail("the offer file was read")

    return lambda: monkeypatch.setattr(ijson, "basic_parse", fail)


def test_the_second_run_does_not_read_it(path: Path, unread: Callable[[], None]) -> None:
    said: list[str] = []
    first = source(path, said.append)
    assert price(first) == "0.115"
    assert said == [f"{path}: 100 % read"]
    unread()
    second = source(path, said.append)
    assert second.machine("m5.large", "on-demand") == first.machine("m5.large", "on-demand")
    assert second.fitting(1, 1, "on-demand") == first.fitting(1, 1, "on-demand")
    assert list(second.known_as("m5.large")) == list(first.known_as("m5.large"))
    assert len(said) == 1
    assert len(kept(path)) == 1


def test_a_newer_file_is_read(path: Path) -> None:
    assert price(source(path)) == "0.115"
    path.write_text(TEXT.replace("0.1150000000", "0.2250000000"))
    assert price(source(path)) == "0.225"
    # Its size is the same; here its time also seems to be.
    os.utime(path, ns=(0, 0))
    assert price(source(path)) == "0.225"
    assert len(kept(path)) == 1


def test_each_region_and_system_has_its_own(path: Path) -> None:
    OfferFile().machine().machine(hourly="0.2", operatingSystem="RHEL").machine(
        hourly="0.3", regionCode="eu-west-1"
    ).write(path)
    assert price(source(path)) == "0.115"
    assert price(source(path, region="eu-west-1")) == "0.3"
    assert len(source(path, system="RHEL").machine("m5.large", "on-demand").prices) == 2  # type: ignore[union-attr]
    assert price(source(path)) == "0.115"
    assert len(kept(path)) == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: b"",
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[:5000] + b"x" * 4000 + whole[9000:],
        lambda whole: b"SQLite format 3\0" + b"\0" * 5000,
        lambda whole: whole.replace(b"0.115USD", b"0.515USD"),
        lambda whole: whole.replace(b"2026-11-20", b"2026-99-20"),
    ],
)
def test_a_damaged_index_is_made_anew(damage: Callable[[bytes], bytes], path: Path, unread: Callable[[], None]) -> None:
    assert price(source(path)) == "0.115"
    (index,) = (path.parent / "cache").iterdir()
    whole = index.read_bytes()
    assert damage(whole) != whole
    index.write_bytes(damage(whole))
    assert price(source(path)) == "0.115"
    unread()
    assert price(source(path)) == "0.115"


def test_one_that_is_interrupted_leaves_nothing(path: Path) -> None:
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        price(source(path, interrupt))
    assert kept(path) == []
    assert price(source(path)) == "0.115"


def test_two_at_the_same_time(path: Path, unread: Callable[[], None]) -> None:
    found: list[str] = []
    assert price(source(path, lambda _: found.append(price(source(path))))) == "0.115"
    assert found == ["0.115"]
    assert len(kept(path)) == 1
    unread()
    assert price(source(path)) == "0.115"


def test_without_a_folder_for_the_index_it_works(path: Path) -> None:
    (path.parent / "cache").write_text("no folder")
    said: list[str] = []
    found = source(path, said.append)
    assert price(found) == "0.115"
    assert found.near("m5.larg")
    assert [line for line in said if "no index can be kept there" in line] == said[1:]
    assert len(said) == 2


_MEASURED = """
import sys
from pathlib import Path
from vcrecovery.cost.aws_offers import AwsOffers
def peak():
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
before = peak()
found = AwsOffers(Path(sys.argv[1]), "eu-central-1", "RHEL", Path(sys.argv[2]), lambda _: None)
print(len(found.fitting(1, 1, "on-demand")), peak() - before)
"""


def test_its_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    write_large(tmp_path / "offers.json", 20_000_000)
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, tmp_path / "offers.json", tmp_path / "cache"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    fitting, grown = map(int, done.stdout.split())
    assert fitting == 1
    # In KiB. As a whole, the file would take 80,000.
    assert grown < 10_000
