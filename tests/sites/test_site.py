"""The file of a site, and its rows under the agreed names: what does not fit is refused by its column."""

from pathlib import Path

import pytest

from feddr.sites import Site, TableSchema, complaints, read_rows

CATEGORIES = {"smoker": ["never", "now"], "ill": ["no", "yes"]}
SCHEMA = TableSchema(
    "ill",
    ["age", "pressure"],
    ["smoker"],
    missing="median",
    categories={"smoker": ["never", "now"], "ill": ["no", "yes"]},
)
OURS = "age,pressure,smoker,ill,room\n61,140,now,yes,1\n47,,never,no,2\n"
THEIRS = "Alter;Druck;Raucher;krank;Zimmer\n61;140;ja;yes;1\n47;;nein;no;2\n"
MAPPED = """
data = "patients.csv"
delimiter = ";"

[columns]
Alter = "age"
Druck = "pressure"
Raucher = "smoker"
krank = "ill"

[values.smoker]
ja = "now"
nein = "never"
"""


def site(folder: Path, text: str = 'data = "patients.csv"', rows: str = OURS) -> Site:
    (folder / "patients.csv").write_text(rows)
    (folder / "site.toml").write_text(text)
    return Site.read(folder / "site.toml")


def test_own_names_and_words_become_the_agreed_ones(tmp_path: Path) -> None:
    (tmp_path / "mapped").mkdir()
    plain, mapped = site(tmp_path), site(tmp_path / "mapped", MAPPED, THEIRS)
    ours, theirs = read_rows(plain, SCHEMA), read_rows(mapped, SCHEMA)
    assert ours.reset_index(drop=True).equals(theirs.reset_index(drop=True))
    assert "room" not in ours.columns  # what nobody has agreed on is not even passed on
    assert complaints(mapped, SCHEMA) == []


@pytest.mark.parametrize(
    ("before", "after", "column", "words"),
    [
        ("age,", "Age,", "age", "no column age; it has Age, .*Did you mean Age"),
        ("61,140", "old,140", "age", "line 2: column age must hold finite numbers, got 'old'"),
        ("61,140", ",140", None, ""),
        (
            "now,yes",
            "daily,yes",
            "smoker",
            r"smoker must be one of 'never', 'now', got 'daily'.*\[values.smoker\]",
        ),
        ("now,yes", "now,perhaps", "ill", "column ill must be one of 'no', 'yes', got 'perhaps'"),
        ("now,yes", "now,", "ill", "line 2: column ill is empty"),
        ("room", "age", "age", "column age is there twice"),
    ],
)
def test_what_was_not_agreed_is_refused_by_column(
    tmp_path: Path, before: str, after: str, column: str | None, words: str
) -> None:
    changed = site(tmp_path, rows=OURS.replace(before, after, 1))
    if column is None:  # a missing number, which the median replaces
        assert len(read_rows(changed, SCHEMA)) == 2
        return
    assert [name for name, _ in complaints(changed, SCHEMA)] == [column]
    with pytest.raises(ValueError, match=words):
        read_rows(changed, SCHEMA)


def test_all_columns_that_are_wrong_are_named_together(tmp_path: Path) -> None:
    wrong = complaints(site(tmp_path, rows=OURS.replace("age,pressure", "a,p").replace("now", "x")), SCHEMA)
    assert [name for name, _ in wrong] == ["age", "pressure", "smoker"]


def test_an_own_name_stands_beside_the_agreed_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"column age must hold finite numbers.*\(here Alter\)"):
        read_rows(site(tmp_path, MAPPED, THEIRS.replace("61", "x")), SCHEMA)


def test_a_missing_number_is_refused_where_nothing_replaces_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 3: column pressure is empty"):
        read_rows(site(tmp_path), TableSchema("ill", ["age", "pressure"], ["smoker"]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('dat = "a.csv"', "dat is not a setting of a site.*Did you mean data"),
        ("data = 3", "data must be a text"),
        ("rules = 3", r"rules must be a table.*write \[rules\]"),
        ("[rules]\nminimum_record = 3", "rules.minimum_record is not a rule.*Did you mean minimum_records"),
        ("[rules]\nminimum_sites = 0", "rules.minimum_sites must be a whole number"),
        ('[columns]\na = "age"\nb = "age"', "columns must name each agreed column once, got age twice"),
        ("[values.smoker]\nja = 1", "values.smoker must be a table of words"),
        ("[rules", "not TOML"),
    ],
)
def test_what_is_wrong_in_the_file_of_a_site_is_said_with_its_key(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        site(tmp_path, text)
    assert str(error.value).startswith(str(tmp_path / "site.toml"))


def test_a_column_that_the_file_does_not_have_cannot_be_mapped(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"columns has 'Alder', which is no column of the file.*Did you mean Alter"):
        read_rows(site(tmp_path, MAPPED.replace("Alter", "Alder"), THEIRS), SCHEMA)


def test_words_of_a_column_that_nobody_agreed_on_are_refused(tmp_path: Path) -> None:
    text = 'data = "patients.csv"\n[values.smokers]\nja = "now"'
    with pytest.raises(ValueError, match=r"values.smokers is of no agreed column.*Did you mean smoker"):
        read_rows(site(tmp_path, text), SCHEMA)


def test_categories_are_of_columns_that_have_them() -> None:
    with pytest.raises(ValueError, match="categories are of categorical columns and of the label"):
        TableSchema("ill", ["age"], categories={"age": [1, 2]})
