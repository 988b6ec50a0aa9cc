"""Items in whatever dress a model puts them in; named failures; nothing that text can break."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import often
from wardround.core import FormatError
from wardround.memory import ParsedItem, parse_experiences
from wardround.memory.extract import ParsedItems

ONE = ParsedItem(title="Read notes first", description="When a stay begins", content="The note names the problem.")
TWO = ParsedItem(title="Check units", description="When values jump", content="Two units may be mixed. Compare both.")
PAIR = (ONE, TWO)
LISTED = [{"title": one.title, "description": one.description, "content": one.content} for one in PAIR]

ASKED_FOR = """### Item 1
Title: Read notes first
Description: When a stay begins
Content: The note names the problem.

### Item 2
Title: Check units
Description: When values jump
Content: Two units may be mixed.
Compare both.
"""
HEADINGS = """Here is what I learnt.

# Memory Item 1
## Title Read notes first
## Description When a stay begins
## Content The note names the problem.

# Memory Item 2
## Title
Check units
## Description
When values jump
## Content
Two units may be mixed. Compare both.
"""
BOLD = """1. **Title:** Read notes first
   - **Description:** When a stay begins
   - **Content:** The note names the problem.
2. **Title**: Check units
   - **Description**: When values jump
   - **Content**: Two units may be mixed. Compare both.

That is all.
"""
BARE_TITLES = """Read notes first
- Description: When a stay begins
- Content: The note names the problem.

**Check units**
- Description: When values jump
- Content: Two units may be mixed. Compare both.
"""
SHOUTED = """TITLE: <Read notes first>
DESCRIPTION: When a stay begins
CONTENT: The note names the problem.
TITLE: `Check units`
DESCRIPTION: When values jump
CONTENT: Two units may be mixed. Compare both.
"""


@pytest.mark.parametrize(
    "text",
    [
        ASKED_FOR,
        HEADINGS,
        BOLD,
        BARE_TITLES,
        SHOUTED,
        f"```markdown\n{ASKED_FOR}```",
        f"<think>Title: no\nContent: no</think>\n{ASKED_FOR}",
        ASKED_FOR.replace("\n", "\r\n"),
        json.dumps(LISTED),
        f"Sure:\n```json\n{json.dumps({'items': LISTED}, indent=1)}\n```\nDone.",
        json.dumps({"memory_items": LISTED}),
        json.dumps([{name.title(): value for name, value in one.items()} for one in LISTED])[:-1] + ",]",
    ],
    ids=[
        "asked",
        "headings",
        "bold",
        "bare",
        "shouted",
        "fence",
        "thinking",
        "crlf",
        "json",
        "items",
        "memory",
        "comma",
    ],
)
def test_every_dress_reads_alike(text: str) -> None:
    assert parse_experiences(text) == ParsedItems(items=PAIR)


def test_a_single_object_is_one_item() -> None:
    assert parse_experiences(json.dumps(LISTED[0])).items == (ONE,)


def test_nothing_to_learn_is_no_mistake() -> None:
    for text in ("NONE", "none.", "<think>hm</think>\n**None**"):
        assert parse_experiences(text) == ParsedItems(items=())


def test_what_cannot_be_used_is_dropped_and_named() -> None:
    text = ASKED_FOR + "### Item 3\nTitle: No content\n### Item 4\nTitle: check UNITS\nContent: again\n"
    found = parse_experiences(text)
    assert found.items == PAIR
    assert found.problems == ("item 3 has no content", "item 4 repeats a title")
    assert parse_experiences(ASKED_FOR, maximum=1).problems == ("item 2 is beyond the 1 that are taken",)
    long = parse_experiences(f"Title: {'t' * 500}\nContent: c")
    assert long.items[0].title == "t" * 200
    assert long.problems == ("the title of item 1 was cut at 200 characters",)


NOTHING = "there is no item with a title and a content in it"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", NOTHING),
        ("I could not find anything useful.", NOTHING),
        ("Title: alone", "item 1 has no content"),
        ("{}", NOTHING),
        ('[{"title": "x"}]', "item 1 has no content"),
        ("[1]", NOTHING),
    ],
)
def test_a_reply_without_an_item_says_what_is_wrong_and_how_it_should_look(text: str, problem: str) -> None:
    with pytest.raises(FormatError, match=f"^no experience could be read: {problem}$") as caught:
        parse_experiences(text, maximum=4)
    assert problem in caught.value.correction
    assert "### Item 1" in caught.value.correction
    assert "at most 4 items" in caught.value.correction


def test_prose_about_content_is_no_label() -> None:
    text = "Title: A\nContent: first line\ncontent of the note matters\ntitle words too"
    assert parse_experiences(text).items[0].content == "first line content of the note matters title words too"


FRAGMENTS = st.sampled_from(
    [
        "Title:",
        "Content:",
        "Description",
        "##",
        "**",
        "\n",
        "### Item 1",
        "{",
        "}",
        "[",
        '"title":',
        "```",
        "x",
        "NONE",
        "\x00",
        "\ud800",
    ]
)


@settings(max_examples=often(100, 300), deadline=None)
@given(st.lists(FRAGMENTS | st.text(max_size=8), max_size=40).map(" ".join) | st.text())
def test_no_text_breaks_it(text: str) -> None:
    with suppress(FormatError):
        found = parse_experiences(text, maximum=3)
        assert len(found.items) <= 3
        for item in found.items:
            assert item.title.isprintable()
            assert item.content.strip()
            item.content.encode()


def test_an_expression_is_text() -> None:
    text = "Title: exit('now') or os.getcwd()\nContent: [x for x in ()]"
    assert parse_experiences(text).items[0].title == "exit('now') or os.getcwd()"


def test_a_long_reply_takes_no_long_time() -> None:
    assert len(parse_experiences("Title: a\nContent: b\n" + "* " * 100_000).items) == 1
    with pytest.raises(FormatError):
        parse_experiences("[" * 50_000)
