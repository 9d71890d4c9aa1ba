"""The guide of calibration prints what netsim prints."""

import re
import sys
from pathlib import Path

import pytest

from netsim.cli import main

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "calibration.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_commands_of_the_guide(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    tried = 0
    for kind, block in re.findall(r"^```(console|python)\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE):
        if kind == "python":
            exec(compile(block, "calibration.md", "exec"), {})
            continue
        command, *expected = block.strip().splitlines()
        monkeypatch.setattr(sys, "argv", command.removeprefix("$ ").split())
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        printed = " ".join(capsys.readouterr().out.split())
        for line in expected:
            assert " ".join(line.split()) in printed, printed
        tried += 1
    assert tried == 3
