"""What this user's programs run is nobody else's: folders in shared places are taken only if they are the user's alone."""

import tempfile
from pathlib import Path

import pytest

from rocketeer.spark.java import NoJava, wrapped_home
from rocketeer.spark.private_folders import is_private, make_private
from rocketeer.spark.sessions import lean_home


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_folder_is_made_for_the_user_alone_and_found_again(temporary: Path) -> None:
    for _ in range(2):
        assert make_private(temporary / "mine")
    assert (temporary / "mine").stat().st_mode & 0o777 == 0o700


def test_links_folders_that_others_may_write_and_places_where_others_replace_them_are_refused(
    temporary: Path,
) -> None:
    (temporary / "link").symlink_to(temporary)
    (temporary / "open").mkdir()
    (temporary / "open").chmod(0o777)
    for name in ("link", "open", "open/below", "no/such"):
        assert not make_private(temporary / name)
    assert not is_private(temporary / "nowhere")


def test_spark_is_run_from_where_it_is_installed_if_the_home_of_links_is_not_ours(
    temporary: Path, tmp_path: Path
) -> None:
    package = tmp_path / "package"
    (package / "jars").mkdir(parents=True)
    home = lean_home(package)
    assert home.parent == temporary
    assert (home / "jars").resolve() == package / "jars"
    home.chmod(0o777)
    assert lean_home(package) == package


def test_java_is_not_run_from_a_folder_that_is_not_ours(temporary: Path, tmp_path: Path) -> None:
    (tmp_path / "java").mkdir()
    home = wrapped_home(tmp_path / "java")
    assert home.parent == temporary
    assert wrapped_home(tmp_path / "java") == home
    home.chmod(0o777)
    with pytest.raises(
        NoJava, match=f"{home}, from where Java would be started, is not this user's alone: remove it"
    ):
        wrapped_home(tmp_path / "java")
