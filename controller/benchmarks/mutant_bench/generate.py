"""In the copy: puts the mutants in the place of the sources, and says which there are.

Writes `mutants.json`: of each mutant, whether the type checker notices it, and what it changes.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from mutmut.__main__ import create_mutants
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.mutation.file_mutation import filter_mutants_with_type_checker
from mutmut.utils.file_utils import copy_also_copy_files, copy_src_dir, walk_mutatable_files


def main() -> None:
    Path("mutants").mkdir()
    copy_src_dir()
    copy_also_copy_files()
    create_mutants(2)
    typed = filter_mutants_with_type_checker()
    found = []
    for path in walk_mutatable_files():
        data = SourceFileMutationData(path=path)
        data.load()
        found += [
            {"name": name, "typed": name in typed, "shown": get_diff_for_mutant(name, path=path)}
            for name in data.exit_code_by_key
        ]
    Path("mutants.json").write_text(json.dumps(found, indent=1))
    shutil.rmtree("src")
    shutil.move("mutants/src", "src")
    shutil.rmtree("mutants")


if __name__ == "__main__":
    main()
