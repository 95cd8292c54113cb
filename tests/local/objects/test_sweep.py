"""Expired objects go, and files without objects."""

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gcp_adk_store import UnavailableError
from tests.local.objects.conftest import FIELDS, Kept, files, upload
from tests.support.clock import Clock
from tests.support.small_pieces import set_numbers

NOW = datetime(2030, 1, 1, tzinfo=UTC)
AT = NOW.timestamp()
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


async def put(kept: Kept, name: str, until: datetime | None) -> None:
    """Create an object that expires."""
    await kept.objects.create(name, upload(until=until))


class TestExpiry:
    """As a lifecycle rule with a ``daysSinceCustomTime`` of 0."""

    async def test_objects_go_when_their_custom_time_comes(self, kept: Kept) -> None:
        await put(kept, "past", NOW - timedelta(microseconds=1))
        await put(kept, "now", NOW)
        await put(kept, "future", NOW + timedelta(microseconds=1))
        await put(kept, "never", None)
        assert 2 == await kept.sweep(AT)
        assert ["future", "never"] == await kept.objects.names("", delimiter=None)
        assert 0 == await kept.sweep(AT)

    async def test_one_sweep_is_bounded_and_the_next_goes_on(
        self, kept: Kept, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        set_numbers(monkeypatch, swept_at_once=2, swept_steps=2)
        for number in range(5):
            await put(kept, f"{number}", NOW - timedelta(seconds=5 - number))
        assert 4 == await kept.sweep(AT)
        assert ["4"] == await kept.objects.names("", delimiter=None)
        assert 1 == await kept.sweep(AT)


class TestOrphans:
    """Files that no object has."""

    async def orphan(self, kept: Kept) -> None:
        async with kept.contents.draft() as draft:
            await draft.write(b"x")
            await draft.finish()

    @pytest.mark.parametrize(("age_s", "left"), [(DAY_S - 60, 1), (DAY_S + 60, 0)])
    @pytest.mark.parametrize("rename", [lambda path: path, lambda path: path.with_suffix(".part")])
    async def test_a_file_without_an_object_goes_after_a_day(
        self, on_disk: Kept, folder: Path, age_s: float, left: int, rename: Callable[[Path], Path]
    ) -> None:
        await self.orphan(on_disk)
        (path,) = files(folder)
        path.rename(rename(path))
        os.utime(rename(path), (AT - age_s, AT - age_s))
        assert 1 - left == await on_disk.sweep(AT)
        assert left == len(files(folder))

    async def test_a_file_with_an_object_stays_however_old_it_is(self, on_disk: Kept, folder: Path) -> None:
        await put(on_disk, "a", None)
        (path,) = files(folder)
        os.utime(path, (0, 0))
        assert 0 == await on_disk.sweep(AT)
        assert [path] == files(folder)

    async def test_a_file_that_is_being_written_stays_however_old_it_is(
        self, on_disk: Kept, folder: Path
    ) -> None:
        async with on_disk.contents.draft() as draft:
            for write in (lambda: draft.write(b"x"), draft.finish):
                await write()
                (path,) = files(folder)
                os.utime(path, (0, 0))
                assert 0 == await on_disk.sweep(AT)
                assert [path] == files(folder)
            os.utime(path, (AT, AT))
        assert 0 == await on_disk.sweep(AT)
        os.utime(path, (0, 0))
        assert 1 == await on_disk.sweep(AT)

    async def test_a_writer_whose_file_was_taken_records_no_object(self, on_disk: Kept, folder: Path) -> None:
        async def lose() -> None:
            async with on_disk.contents.draft() as draft:
                content = await draft.finish()
                files(folder)[0].unlink()  # as a sweep does once the call that writes was cancelled
                await on_disk.objects.insert("a", FIELDS, content)

        with pytest.raises(UnavailableError, match="nothing was recorded"):
            await lose()
        assert [] == await on_disk.objects.names("", delimiter=None)

    async def test_a_file_of_another_program_stays(self, on_disk: Kept, folder: Path) -> None:
        await put(on_disk, "a", None)
        (path,) = files(folder)
        foreign = [path.parent / "README", folder / "objects" / "notes", path.parent / "ab.txt"]
        foreign += [folder / "objects" / "pending" / name for name in ("README", "ab.remove")]
        for each in foreign:
            each.write_text("x")
            os.utime(each, (0, 0))
        (path.parent / "folder").mkdir()
        os.utime(path.parent / "folder", (0, 0))
        assert 0 == await on_disk.sweep(time.time())
        assert all(each.exists() for each in foreign)

    async def test_a_file_in_the_folder_of_another_name_is_not_reported_as_removed(
        self, on_disk: Kept, folder: Path
    ) -> None:
        """No object can have it, and no removal would reach it."""
        stray = folder / "objects" / "ab" / ("cd" * 16)
        stray.parent.mkdir(parents=True)
        stray.touch()
        assert [] == await on_disk.objects.left(every=True)
        assert stray.exists()


class TestSweeper:
    """Once an hour."""

    async def test_the_first_call_sweeps_and_a_process_does_not_look_again_within_an_hour(
        self, kept: Kept, clock: Clock
    ) -> None:
        sweeper = kept.sweeper()
        await put(kept, "a", NOW)
        assert 1 == await sweeper.sweep_if_due()
        await put(kept, "b", NOW)
        clock.after(2 * HOUR_S)
        assert 0 == await sweeper.sweep_if_due()

    async def test_another_process_sweeps_when_an_hour_has_passed(self, kept: Kept, clock: Clock) -> None:
        async def sweep_elsewhere() -> int:
            return await kept.sweeper().sweep_if_due()

        await sweep_elsewhere()
        await put(kept, "a", NOW)
        clock.after(HOUR_S - 1)
        assert 0 == await sweep_elsewhere()
        clock.after(1)
        assert 1 == await sweep_elsewhere()

    async def test_a_clock_that_was_wrong_prevents_no_sweep(self, kept: Kept, clock: Clock) -> None:
        clock.after(1000 * DAY_S)
        await kept.sweeper().sweep_if_due()
        clock.after(-1000 * DAY_S)
        await put(kept, "a", NOW)
        assert 1 == await kept.sweeper().sweep_if_due()

    async def test_a_failure_is_logged_and_not_raised(
        self, on_disk: Kept, folder: Path, clock: Clock, caplog: pytest.LogCaptureFixture
    ) -> None:
        del clock
        folder.mkdir()
        (folder / "objects").touch()
        assert 0 == await on_disk.sweeper().sweep_if_due()
        assert "sweep" in caplog.text

    async def test_a_new_object_lets_expired_ones_go(self, kept: Kept, clock: Clock) -> None:
        del clock
        await put(kept, "a", NOW)
        objects = kept.swept()
        await objects.create("b", upload())
        assert ["b"] == await objects.names("", delimiter=None)
