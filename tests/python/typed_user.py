"""A script that uses the package; `mypy --strict` reads it, and nothing runs it."""

from typing import List

import numpy as np

import crosshead


def greedy(directory: str, prompt: str, count: int) -> List[int]:
    with crosshead.Model(directory) as model, crosshead.Session(model, max_tokens=64, cache="bf16", threads=1) as session:
        logits = session.feed(model.encode(prompt))
        made: List[int] = []
        for _ in range(count):
            made.append(int(logits.argmax()))
            logits = session.feed(np.array(made[-1:], dtype=np.int64))
        rows = crosshead.Session(model, sequences=2).feed([[1, 2], [3, 4]])
        assert rows[0, 0] <= np.float32(1)
        return made


def goes_on(position: crosshead.structs.ComparePosition) -> bool:
    return position.step.loss < 10


found = crosshead.compare("out", data="text.txt", mechanisms=["mha", "mla"], tokens=1000, on_step=goes_on)
print(found.verdict.sentence, found.results.models[0].name, found.to_pandas())
crosshead.foresee("out", data="text.txt", mechanisms="mha,mla", ladder=[1e6, 500_000], tasks={"hellaswag": "items.jsonl"})
crosshead.train("run", config="config.json", data="text.txt", steps=3, schedule="cosine", on_step=print)
crosshead.quantize("run", "q8", type="q8_0")
scores: List[float] = [one.log_likelihood for one in crosshead.score("run", [("a", "b")], window=64)]
with crosshead.Model("run") as opened:
    written: List[str] = [piece.text for piece in crosshead.generate(opened, ["a", [1, 2]], max_tokens=3, stop="\n")]
    ends: List[str] = [text.end for text in crosshead.generate(opened, "a").texts()]
crosshead.train("run", stepps=3)  # type: ignore[call-arg]
crosshead.Session("run")  # type: ignore[arg-type]
