"""The gallery: every question has its five parts, and its answer no number that the program does not print.

That the commands print what the pages show is held by test_docs.py, which runs them at full size. The page with
learning takes minutes, so here one of its seeds is played again, and its means are worked out from its own rows.
"""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import pytest

from netsim import run_sweep
from netsim.analysis.seed_statistics import paired

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
PAGES = sorted(path for path in GALLERY.glob("*.md") if path.stem != "index")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
PARTS = ["Scenario", "Commands", "Figure", "Answer"]
MOST_BYTES = 60_000

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def parts(page: Path) -> dict[str, str]:
    """A page's sections by their headings; what stands above the first one is the question."""
    head, *rest = re.split(r"^## (.+)\n", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {"Question": head} | dict(zip(rest[::2], rest[1::2], strict=True))


def test_there_are_ten_questions_and_the_index_shows_each():
    index = (GALLERY / "index.md").read_text(encoding="utf-8")
    assert len(PAGES) == 10
    for page in PAGES:
        assert f'<img src="{page.stem}.png"' in index
        assert f"]({page.stem}.md)" in index
        assert f"\n{page.stem}\n" in index, f"{page.stem} is missing in the table of contents"


@every_page
def test_a_page_has_a_question_a_scenario_commands_a_figure_and_an_answer(page):
    found = parts(page)
    assert list(found)[1:5] == PARTS
    assert re.match(r"# .+\?\n\n.+", found["Question"])
    assert "```toml\n" in found["Scenario"]
    assert "$ " in found["Commands"]
    assert f"]({page.stem}.png)" in found["Figure"]
    assert (GALLERY / f"{page.stem}.png").stat().st_size < MOST_BYTES


@every_page
def test_the_files_on_a_page_are_those_beside_it(page):
    for _, block in FENCE.findall(page.read_text(encoding="utf-8")):
        if saved := re.match(r"# ([\w-]+\.(?:toml|py))\n", block):
            assert block == (GALLERY / saved[1]).read_text(encoding="utf-8"), f"{saved[1]}: docs/make_gallery.py"


@every_page
def test_the_numbers_of_an_answer_are_printed_by_its_commands(page):
    found = parts(page)
    printed = set(NUMBER.findall(found["Commands"] + found["Scenario"]))
    assert len(NUMBER.findall(found["Answer"])) > 3
    assert set(NUMBER.findall(found["Answer"])) <= printed


def test_the_index_says_nothing_that_the_pages_do_not():
    items = re.findall(r"^\*\*\[.+?\]\(([\w-]+\.md)\)\*\* (.+)$", (GALLERY / "index.md").read_text(), re.MULTILINE)
    assert len(items) == len(PAGES)
    for page, short in items:
        assert set(NUMBER.findall(short)) <= set(NUMBER.findall(parts(GALLERY / page)["Answer"]))


def skewed() -> tuple[dict[str, dict[int, tuple[float, float]]], str]:
    """By method and seed, rounds to the target and the accuracy at the end, as the page has them; and all of it."""
    text = (GALLERY / "skew.md").read_text(encoding="utf-8")
    rows: dict[str, dict[int, tuple[float, float]]] = {}
    for seed, cells in re.findall(r"^ +(\d+)  (.+ %)$", text, re.MULTILINE):
        for method, rounds, accuracy in re.findall(r"([\w-]+) +(\d+), ([\d.]+) %", cells):
            rows.setdefault(method, {})[int(seed)] = float(rounds), float(accuracy)
    return rows, text


def test_the_means_of_the_page_with_learning_are_those_of_its_rows():
    rows, text = skewed()
    assert {len(seeds) for seeds in rows.values()} == {tomllib.loads((GALLERY / "skew.toml").read_text())["seeds"]}
    verdict = r"^([\w-]+) against ([\w-]+): (.+) ± (.+) rounds, (.+) ± (.+) points$"
    verdicts = re.findall(verdict, text, re.MULTILINE)
    assert len(verdicts) == 3
    for one, other, *printed in verdicts:
        rounds, points = (paired(*({seed: row[at] for seed, row in rows[each].items()} for each in (one, other)))
                          for at in (0, 1))
        assert [float(each) for each in printed[:2]] == pytest.approx([rounds.mean, rounds.half], abs=0.051)
        assert [float(each) for each in printed[2:]] == pytest.approx([points.mean, points.half], abs=0.016)


@pytest.mark.extended
def test_one_seed_of_the_page_with_learning_is_played_again():
    rows, _ = skewed()
    [case] = run_sweep("quickstart", {"selection.method": ["divergence"]}, seeds=[0]).cases
    rounds, accuracy = rows["divergence"][0]
    assert case.reached(0.8)["rounds"][0] == pytest.approx(rounds, abs=1)          # another processor may differ
    assert case.values("accuracy")[0] == pytest.approx(accuracy / 100, abs=0.02)


def test_a_page_is_made_anew_from_its_files_and_what_its_commands_print(tmp_path, monkeypatch):
    made = runpy.run_path(str(GALLERY.parent / "make_gallery.py"))["played"]
    monkeypatch.setitem(made.__globals__, "GALLERY", tmp_path)
    monkeypatch.setitem(made.__globals__, "run", lambda words, folder: f"{(folder / words[-1]).exists()}\n")
    (tmp_path / "few.toml").write_text("# few.toml\nnew\n", encoding="utf-8")
    (tmp_path / "played").mkdir()
    page = ("```toml\n# few.toml\n{}\n```\n\n"
            "```console\n$ netsim sweep few.toml\n{}\n$ netsim run few.toml\nkept\n```\n")
    assert made(page.format("old", "old"), tmp_path / "played") == page.format("new", True)
