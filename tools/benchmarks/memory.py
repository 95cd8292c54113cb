"""Measure memories: what searches find, beside ADK's two services, and what a search takes.

``make bench-memory`` runs it. Quality is measured on the conversations of ``memory_talk``: recall@10 is the
share of questions whose answer is among the first ten results, MRR the mean of one divided by its rank there.
ADK's FirestoreMemoryService runs on the emulator; there, reads are counted as Firestore bills them.
"""

import argparse
import asyncio
import itertools
import json
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.adk.events import Event
from google.adk.integrations.firestore.firestore_memory_service import FirestoreMemoryService as AdkFirestore
from google.adk.memory import BaseMemoryService, InMemoryMemoryService
from google.adk.sessions import Session
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import AsyncClient
from google.genai import types
from rich.console import Console
from rich.table import Table

from gcp_adk_store import MemoryService, Store
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, firestore_emulator
from gcp_adk_store.testing.meters import FirestoreMeter
from tools.benchmarks.memory_embedder import PartsEmbedder
from tools.benchmarks.memory_rules import compare_rules
from tools.benchmarks.memory_talk import LANGUAGES, Question, conversations

OURS, IN_MEMORY, FIRESTORE = "gcp_adk_store", "ADK's InMemoryMemoryService", "ADK's FirestoreMemoryService"
WITH_VECTORS = "gcp_adk_store with vectors"
DIMENSIONS = (0, 256, 768)
"""Numbers in a vector; 0 measures words alone."""
PROJECT = "demo-bench-memory"
FIRST = 10


async def ranks(service: BaseMemoryService, questions: list[Question]) -> list[int | None]:
    """Return the rank of each answer among the first ten results, from 1; ``None`` if it is not there."""
    found: list[int | None] = []
    for question in questions:
        response = await service.search_memory(
            app_name="bench", user_id=question.language, query=question.text
        )
        # ADK's service on Firestore gives no ids: there, the text says which one it is.
        ids = [memory.id or _text(memory.content) for memory in response.memories[:FIRST]]
        right = {question.answer, _TEXTS[question.answer]}
        found.append(next((rank for rank, each in enumerate(ids, 1) if each in right), None))
    return found


_TEXTS: dict[str, str] = {}


def _text(content: types.Content | None) -> str:
    return " ".join(part.text or "" for part in (content.parts if content else None) or [])


def quality(found: list[int | None]) -> tuple[float, float]:
    """Return recall@10 and MRR."""
    recall = sum(rank is not None for rank in found) / len(found)
    return recall, sum(1 / rank for rank in found if rank) / len(found)


async def compare(
    services: dict[str, BaseMemoryService], chatter: int, *, languages: Sequence[str] = tuple(LANGUAGES)
) -> dict[str, Any]:
    """Return the quality of each service, by language and of all."""
    talks = {name: conversations(name, chatter=chatter) for name in languages}
    for sessions, _ in talks.values():
        for session in sessions:
            _TEXTS.update((event.id, _text(event.content)) for event in session.events)
            for service in services.values():
                await service.add_session_to_memory(session)
    results: dict[str, Any] = {}
    for name, service in services.items():
        by_language = {
            language: await ranks(service, questions) for language, (_, questions) in talks.items()
        }
        together = [rank for found in by_language.values() for rank in found]
        recall, mrr = quality(together)
        results[name] = {
            "questions": len(together),
            "recall_at_10": recall,
            "mrr": mrr,
            "languages": {language: quality(found) for language, found in by_language.items()},
        }
    return results


async def speed(meter: FirestoreMeter, sizes: list[int]) -> list[dict[str, Any]]:
    """Return what a search takes of users with so many memories, on the emulator and in the process.

    The query of a warm search with vectors was embedded before: what a model takes is its own.
    """
    results = []
    for size, dimensions in itertools.product(sizes, DIMENSIONS):
        user: dict[str, Any] = {"app_name": "bench", "user_id": f"user of {size} with {dimensions}"}
        embedder = PartsEmbedder(dimensions) if dimensions else None
        sessions, questions = conversations("English", chatter=size - 24, seed=size)
        events = [
            _numbered(event, number) for number, event in enumerate(itertools.chain(*map(_events, sessions)))
        ]
        async with Store.connect(project=PROJECT, embedder=embedder) as store:
            await store.memory.add_events_to_memory(events=events, **user)
            cold = MemoryService(store.sessions.storage, embedder=embedder)
            meter.take()
            began = time.perf_counter()
            await cold.search_memory(query=questions[0].text, **user)
            cold_s, cold_reads = time.perf_counter() - began, meter.take().reads
            took, computed = [], []
            for question in questions:
                await cold.search_memory(query=question.text, **user)
            meter.take()
            for question in questions * 4:
                began, process = time.perf_counter(), time.process_time()
                await cold.search_memory(query=question.text, **user)
                took.append(time.perf_counter() - began)
                computed.append(time.process_time() - process)
            warm_reads = meter.take().reads / len(took)
        results.append(
            {
                "memories": size,
                "dimensions": dimensions,
                "cold_s": cold_s,
                "cold_reads": cold_reads,
                "warm_ms": statistics.median(took) * 1000,
                "warm_best_ms": min(took) * 1000,
                "warm_cpu_ms": statistics.median(computed) * 1000,
                "warm_reads": warm_reads,
            }
        )
    return results


def _events(session: Session) -> list[Event]:
    return session.events


def _numbered(event: Event, number: int) -> Event:
    """Return *event* with words of its own, as what people say has."""
    text = f"{_text(event.content)} {number} note{number % 997} item{number % 89}"
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return event.model_copy(update={"content": content})


def _show(results: dict[str, Any]) -> None:
    table = Table("service", "questions", "recall@10", "MRR", title="What searches find")
    for name, each in results["quality"].items():
        table.add_row(name, f"{each['questions']}", f"{each['recall_at_10']:.3f}", f"{each['mrr']:.3f}")
    console = Console()
    console.print(table)
    table = Table("language", *results["quality"], title="recall@10 by language")
    for language in LANGUAGES:
        recalls = [each["languages"][language][0] for each in results["quality"].values()]
        table.add_row(language, *(f"{recall:.2f}" for recall in recalls))
    console.print(table)
    table = Table(
        *("memories", "dimensions", "cold, s", "cold reads"),
        *("warm, ms", "the best", "CPU, ms", "warm reads"),
        title="A search on the emulator",
    )
    for each in results["speed"]:
        table.add_row(
            f"{each['memories']}",
            f"{each['dimensions'] or 'words alone'}",
            f"{each['cold_s']:.2f}",
            f"{each['cold_reads']}",
            f"{each['warm_ms']:.1f}",
            f"{each['warm_best_ms']:.1f}",
            f"{each['warm_cpu_ms']:.1f}",
            f"{each['warm_reads']:.0f}",
        )
    console.print(table)


def _show_rules(found: dict[str, dict[str, tuple[float, float]]]) -> None:
    embedders = list(next(iter(found.values())))
    table = Table("rule", *embedders, title="recall@10, MRR")
    for name, by_embedder in found.items():
        table.add_row(name, *("{:.3f}, {:.3f}".format(*by_embedder[each]) for each in embedders))
    Console().print(table)


async def _run(*, chatter: int, firestore: bool) -> dict[str, Any]:
    vectors = Store.local(":memory:", embedder=PartsEmbedder())
    async with Store.local(":memory:") as store, vectors:
        services: dict[str, BaseMemoryService] = {
            OURS: store.memory,
            WITH_VECTORS: vectors.memory,
            IN_MEMORY: InMemoryMemoryService(),
        }
        if firestore:
            client = AsyncClient(project=f"{PROJECT}-{time.time_ns()}", credentials=AnonymousCredentials())
            services[FIRESTORE] = AdkFirestore(client=client)
        return {"quality": await compare(services, chatter), "speed": []}


def main() -> None:
    """Measure, print tables, and write them as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--chatter", type=int, default=100, help="agents' answers in each language")
    parser.add_argument("--sizes", type=int, nargs="*", default=[100, 1000, 10_000])
    parser.add_argument("--rules", action="store_true", help="only compare rules that fuse two rankings")
    parser.add_argument("--local", action="store_true", help="neither emulator nor ADK's service on it")
    options = parser.parse_args()
    if options.rules:
        _show_rules(asyncio.run(compare_rules(compare)))
        return
    if options.local:
        results = asyncio.run(_run(chatter=options.chatter, firestore=False))
    else:
        with firestore_emulator() as emulator:
            os.environ[FIRESTORE_VARIABLE] = emulator.address
            results = asyncio.run(_run(chatter=options.chatter, firestore=True))
            with FirestoreMeter(emulator.address) as meter:
                os.environ[FIRESTORE_VARIABLE] = meter.address
                results["speed"] = asyncio.run(speed(meter, options.sizes))
    _show(results)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
