"""Where a lake is: a folder of a mounted file system, or a prefix of an object store (`s3a://bucket/lake`).

The driver, delta-rs and Python workers reach it through this; Spark itself through its own file systems, by
`spark_uri`. Credentials of an object store are those Spark was given (`spark.hadoop.fs.s3a...`), or in the
environment.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rocketeer.errors import RocketeerError
from rocketeer.whole_file import sync_path

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)")
"""One slash is enough: of `s3a://bucket/lake` a Path makes `s3a:/bucket/lake`."""
_S3: Final = ("s3", "s3a")
# Hadoop's settings and the names delta-rs has for them.
_SETTINGS: Final = {
    "fs.s3a.endpoint": "AWS_ENDPOINT_URL",
    "fs.s3a.endpoint.region": "AWS_REGION",
    "fs.s3a.access.key": "AWS_ACCESS_KEY_ID",
    "fs.s3a.secret.key": "AWS_SECRET_ACCESS_KEY",
    "fs.s3a.session.token": "AWS_SESSION_TOKEN",
}


class NoLake(RocketeerError):
    """The place is no lake, or one this version cannot read."""


class LakeDamaged(RocketeerError):
    """A lake whose own files contradict each other."""


@dataclass(frozen=True)
class LakeLocation:
    """Where a lake is, and what is needed to reach it; goes to the workers as it is."""

    root: str
    storage: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(path: "str | Path") -> "LakeLocation":
        """The place a person wrote; NoLake for a kind of store that is not known."""
        text = str(path)
        match = _URL.fullmatch(text)
        if match is None or match[1].lower() == "file":
            local = text if match is None else "/" + match[2]
            return LakeLocation(str(Path(local).absolute()))
        scheme, rest = match[1].lower(), match[2].rstrip("/")
        if scheme not in _S3:
            raise NoLake(
                f"{text}: a lake is a folder, or a prefix of an object store that speaks S3 (s3a://bucket/lake)"
            )
        return LakeLocation(f"s3a://{rest}", tuple(sorted(session_storage().items())))

    def __str__(self) -> str:
        return self.root

    @property
    def is_local(self) -> bool:
        return not self.root.startswith("s3a:")

    @property
    def path(self) -> Path:
        assert self.is_local, f"{self.root} is no folder"
        return Path(self.root)

    @property
    def delta_uri(self) -> str:
        return self.root if self.is_local else "s3" + self.root.removeprefix("s3a")

    @property
    def delta_options(self) -> dict[str, str] | None:
        """For delta-rs: a commit is an object that is put if there is none, which S3 can say by itself."""
        if self.is_local:
            return None
        return {**dict(self.storage), "AWS_CONDITIONAL_PUT": "etag"}

    def spark_uri(self, name: str) -> str:
        return f"{self.root}/{name}"

    # --- files ---------------------------------------------------------------------------------------

    def write(self, name: str) -> Any:
        """A pyarrow stream into a new file; `settle` brings it to the disk after it was closed."""
        import pyarrow as pa

        if self.is_local:
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            return pa.OSFile(str(target), "wb")
        files, base = self._files()
        return files.open_output_stream(f"{base}/{name}")

    def settle(self, name: str) -> None:
        """Returns when the file outlives a power cut; an object store has it when its stream is closed."""
        if self.is_local:
            sync_path(self.path / name)

    def read(self, name: str) -> Any:
        """A pyarrow file; FileNotFoundError if there is none."""
        import pyarrow as pa

        if self.is_local:
            return pa.OSFile(str(self.path / name), "rb")
        files, base = self._files()
        return files.open_input_file(f"{base}/{name}")

    def size(self, name: str) -> int | None:
        """In bytes; None if there is no such file."""
        if self.is_local:
            path = self.path / name
            return path.stat().st_size if path.is_file() else None
        from pyarrow.fs import FileType

        files, base = self._files()
        [found] = files.get_file_info([f"{base}/{name}"])
        return int(found.size) if found.type == FileType.File else None

    def delete(self, name: str) -> None:
        if self.is_local:
            (self.path / name).unlink(missing_ok=True)
        elif self.size(name) is not None:
            files, base = self._files()
            files.delete_file(f"{base}/{name}")

    def data_files(self) -> Iterator[str]:
        """Every Parquet file that lies there by topic and day, counted or not."""
        if self.is_local:
            for folder in sorted(self.path.glob("topic=*")):
                for path in sorted(folder.glob("date=*/*.parquet")):
                    yield path.relative_to(self.path).as_posix()
            return
        from pyarrow.fs import FileSelector

        files, base = self._files()
        for found in files.get_file_info(FileSelector(base, recursive=True, allow_not_found=True)):
            name = found.path.removeprefix(f"{base}/")
            if name.startswith("topic=") and name.endswith(".parquet"):
                yield name

    def has_files(self) -> bool:
        """Whether anything is there beside our notes."""
        if self.is_local:
            return self.path.exists() and any(part.name != "_rocketeer" for part in self.path.iterdir())
        from pyarrow.fs import FileSelector

        files, base = self._files()
        return bool(files.get_file_info(FileSelector(base, allow_not_found=True)))

    def _files(self) -> tuple[Any, str]:
        from pyarrow.fs import S3FileSystem

        given = dict(self.storage)
        endpoint = given.get("AWS_ENDPOINT_URL", "")
        chosen = {
            "access_key": given.get("AWS_ACCESS_KEY_ID"),
            "secret_key": given.get("AWS_SECRET_ACCESS_KEY"),
            "session_token": given.get("AWS_SESSION_TOKEN"),
            "region": given.get("AWS_REGION"),
            "endpoint_override": re.sub(r"^https?://", "", endpoint) or None,
            "scheme": "http" if endpoint.startswith("http://") else None,
        }
        found = S3FileSystem(**{name: value for name, value in chosen.items() if value})
        return found, self.root.removeprefix("s3a://")


def session_storage() -> dict[str, str]:
    """How the running session reaches its object store; empty: by the environment (AWS_...)."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    context = getattr(spark, "_jsc", None)
    if context is None:
        return {}
    hadoop = context.hadoopConfiguration()
    found = {ours: value for theirs, ours in _SETTINGS.items() if (value := hadoop.get(theirs))}
    if found.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        found["AWS_ALLOW_HTTP"] = "true"
    return found
