"""Compare rules that rank by words and by vectors together; ``make bench-memory OPTIONS=--rules`` runs it.

Two embedders make the vectors. One counts parts of words, and knows little that words do not. The other one
is a simulation: the vector of a question is that of its answer, with noise. It knows what words do not, and
errs.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

from gcp_adk_store import FunctionEmbedder, Store
from gcp_adk_store.kernel.ports import Embedder, EmbeddingKind
from gcp_adk_store.memory import contents, ranking
from tools.benchmarks.memory_embedder import PartsEmbedder
from tools.benchmarks.memory_talk import conversations

Ranking = Sequence[tuple[float, int]]
Rule = Callable[[Ranking, Ranking], list[tuple[float, int]]]

SOME = ("English", "German", "Hindi", "Japanese", "Thai")
CHATTER = 40
_DIMENSIONS = 64


def reciprocal(k: int) -> Rule:
    """Return the rule of reciprocal ranks."""

    def fuse(by_words: Ranking, by_vectors: Ranking) -> list[tuple[float, int]]:
        scores: dict[int, float] = {}
        for ranked in (by_words, by_vectors):
            for rank, (_, number) in enumerate(ranked, 1):
                scores[number] = scores.get(number, 0.0) + 1 / (k + rank)
        return sorted(((score, number) for number, score in scores.items()), reverse=True)

    return fuse


def weighted(share: float) -> Rule:
    """Return the store's own rule with another share of the vectors."""

    def fuse(by_words: Ranking, by_vectors: Ranking) -> list[tuple[float, int]]:
        return ranking.fuse(by_words, by_vectors, vectors=share)

    return fuse


RULES: dict[str, Rule] = {
    "words alone": lambda by_words, _: [*by_words],
    "vectors alone": lambda _, by_vectors: [*by_vectors],
    "reciprocal ranks, k = 60": reciprocal(60),
    "reciprocal ranks, k = 10": reciprocal(10),
    "half and half of the scores": weighted(0.5),
    "0.65 words and 0.35 vectors": weighted(ranking.VECTORS),
}


def simulated(likeness: float) -> Embedder:
    """Return an embedder to which each question of the conversations is *likeness* times its answer."""
    answers: dict[str, str] = {}
    for language in SOME:
        sessions, questions = conversations(language, chatter=CHATTER)
        events = [event for session in sessions for event in session.events]
        texts = {event.id: (event.content.parts or [])[0].text for event in events if event.content}
        answers.update((question.text, texts[question.answer] or "") for question in questions)

    def direction(text: str) -> list[float]:
        made = random.Random(text)  # noqa: S311  # the same in every run
        return [made.gauss(0, 1) for _ in range(_DIMENSIONS)]

    def embed(texts: Sequence[str], kind: EmbeddingKind) -> list[list[float]]:
        made = []
        for text in texts:
            if kind == "document":
                made.append(direction(text))
                continue
            answer, noise = direction(answers[text]), direction(f"noise {text}")
            made.append([likeness * right + wrong for right, wrong in zip(answer, noise, strict=True)])
        return made

    return FunctionEmbedder(embed, name=f"simulation {likeness}", dimensions=_DIMENSIONS)


async def compare_rules(
    compare: Callable[..., Any],
) -> dict[str, dict[str, tuple[float, float]]]:
    """Return recall@10 and MRR of each rule with each embedder."""
    embedders: dict[str, Embedder] = {
        "parts of words": PartsEmbedder(),
        "simulation, 0.15": simulated(0.15),
        "simulation, 0.25": simulated(0.25),
    }
    found: dict[str, dict[str, tuple[float, float]]] = {name: {} for name in RULES}
    module = vars(contents)  # the store has one rule: an option for it would be for this alone
    own = module["fuse"]
    try:
        for of, embedder in embedders.items():
            for name, rule in RULES.items():
                module["fuse"] = rule
                async with Store.local(":memory:", embedder=embedder) as store:
                    result = (await compare({name: store.memory}, CHATTER, languages=SOME))[name]
                found[name][of] = result["recall_at_10"], result["mrr"]
    finally:
        module["fuse"] = own
    return found
