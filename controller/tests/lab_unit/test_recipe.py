"""The cache key of the image."""

from dataclasses import replace
from pathlib import Path

from vcrecovery_lab.recipe import Recipe


def test_the_digest_is_the_same_for_the_same_recipe() -> None:
    assert Recipe().digest() == Recipe().digest()


def test_the_digest_changes_with_any_part(tmp_path: Path) -> None:
    source = tmp_path / "build.py"
    source.write_text("one")
    recipe = Recipe()
    before = recipe.digest(source)
    changed = [
        replace(recipe, packages=(*recipe.packages, "bind9")),
        replace(recipe, files={**recipe.files, "etc/hostname": "other\n"}),
        replace(recipe, masked_units=()),
    ]
    digests = {before, *(other.digest(source) for other in changed)}
    source.write_text("two")
    digests.add(recipe.digest(source))
    assert len(digests) == 5
