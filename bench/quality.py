#!/usr/bin/env python3
"""How close tern's answers are to llama.cpp's and to the model's own arithmetic in float32.

  bench/quality.py [--tern build/tern] [--models DIR] [--only NAME] [--greedy | --float | --record]

--greedy  64 greedy tokens of 20 prompts (prompts.json; SmolLM2's in its chat template). llama.cpp makes them token by
          token; tern computes the logits along the same tokens, which are those of its own run for as long as both
          choose the same, because tern's logits do not depend on how the work is cut. Also compared: the ids of each
          prompt, and the text that `tern run` prints. A first difference is a near-tie when both engines hold the two
          tokens within 0.05; any other is shown with what float32 says.
--float   logits of texts.txt against transformers in float32 on the dequantized weights, for tern and llama.cpp side by
          side: mean |logit difference|, mean KL divergence, agreement of the likeliest token, perplexity.
--record  writes tests/golden/peer-greedy.json, llama.cpp's tokens that tests/test_peer.py expects.
Without one of them: --greedy and --float. With the files that float_weights.py writes in --models, neither engine rounds
activations to int8: --greedy then shows what else the two differ by.

Requires (bench only, not part of the tests): llama-cpp-python==0.3.36 gguf==0.19.0 torch transformers>=5 accelerate jinja2
numpy.
"""

import argparse
import collections
import ctypes
import hashlib
import json
import os
import pathlib
import subprocess
import sys

import jinja2
import llama_cpp as llama
import numpy as np

BENCH = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(BENCH))
import llama_speed  # noqa: E402

GOLDEN = BENCH.parent / "tests" / "golden" / "peer-greedy.json"
NAMES = {"smollm2-135m": True, "gemma3-270m": False}  # whether prompts go through the chat template
N_GREEDY, NEAR_TIE = 64, 0.05
N_RECORDED_PROMPTS, N_RECORD = 3, 24
GEMMA_TURN = "<start_of_turn>user\n{}<end_of_turn>\n<start_of_turn>model\n"
N_CTX = 1024


class Peer:
    """llama.cpp: two threads, f16 cache, plain attention."""

    def __init__(self, path):
        self.model, self.context = llama_speed.open_context(
            str(path), 2, N_CTX, N_CTX, llama.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        self.vocab = llama.llama_model_get_vocab(self.model)
        self.n_vocab = llama.llama_vocab_n_tokens(self.vocab)
        self.batch = llama.llama_batch_init(N_CTX, 0, 1)

    def close(self):
        llama.llama_batch_free(self.batch)
        llama.llama_free(self.context)
        llama.llama_model_free(self.model)

    def tokenize(self, text):
        data, ids = text.encode(), (llama.llama_token * N_CTX)()
        n = llama.llama_tokenize(self.vocab, data, len(data), ids, N_CTX, True, True)
        if n < 0:
            sys.exit(f"quality: a text of more than {N_CTX} tokens")
        return list(ids[:n])

    def text(self, ids):
        """The bytes of tokens, nothing for control tokens."""
        buffer, out = ctypes.create_string_buffer(256), b""
        for token in ids:
            n = llama.llama_token_to_piece(self.vocab, token, buffer, 256, 0, False)
            out += buffer.raw[:n]
        return out

    def eval(self, ids, position):
        """Logits of every one of ids, which follow the first `position` tokens."""
        batch = self.batch
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.logits[i] = token, position + i, 1
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
        if llama.llama_decode(self.context, batch) != 0:
            sys.exit("quality: llama_decode failed")
        rows = [np.ctypeslib.as_array(llama.llama_get_logits_ith(self.context, i), (self.n_vocab,)) for i in range(len(ids))]
        return np.array(rows, np.float32)

    def logits(self, ids):
        llama.llama_memory_clear(llama.llama_get_memory(self.context), True)
        return self.eval(ids, 0)

    def greedy(self, prompt, n):
        """At most n tokens, the last one perhaps an end token, and the logits that each was chosen from."""
        rows, ids = [self.logits(prompt)[-1]], []
        while True:
            ids.append(int(rows[-1].argmax()))
            if len(ids) == n or llama.llama_vocab_is_eog(self.vocab, ids[-1]):
                return ids, np.array(rows)
            rows.append(self.eval(ids[-1:], len(prompt) + len(ids) - 1)[0])

    def chat(self, text):
        template = llama.llama_model_chat_template(self.model, None).decode()
        environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        messages = [{"role": "user", "content": text}]
        return environment.from_string(template).render(messages=messages, add_generation_prompt=True)


class Tern:
    def __init__(self, command, path):
        self.command, self.path = command, path

    def run(self, name, *options, data=b""):
        done = subprocess.run([self.command, name, "-m", self.path, *map(str, options)], input=data, capture_output=True)
        if done.returncode:
            sys.exit(f"quality: tern {name}: {done.stderr.decode()}")
        return done.stdout

    def tokenize(self, text):
        return [int(word) for word in self.run("tokenize", data=text.encode()).split()]

    def logits(self, ids):
        out = self.run("logits", "--all", "--ids", " ".join(map(str, ids)), "-t", 2, "-o", "-")
        return np.frombuffer(out, "<f4").reshape(len(ids), -1)

    def text(self, prompt, n):
        return self.run("run", "-p", prompt, "-n", n, "--temp", 0, "-t", 2, "-q")


class Float:
    """transformers in float32 on the file's own weights, dequantized by the gguf package; loaded at first use."""

    def __init__(self, path):
        self.path, self.model = pathlib.Path(path), None

    def logits(self, ids):
        import torch

        if not self.model:
            from transformers import AutoModelForCausalLM
            from transformers.utils import logging

            logging.set_verbosity_error()
            self.model = AutoModelForCausalLM.from_pretrained(
                str(self.path.parent), gguf_file=self.path.name, dtype=torch.float32, attn_implementation="eager"
            ).eval()
        with torch.no_grad():
            return self.model(torch.tensor([ids])).logits[0].numpy()


def gap(row, a, b):
    return float(row[a] - row[b])


def first_difference(prompt, ids, theirs, tern):
    """(step, tern's token, tern's row, largest |difference| of a logit before it) at the first other choice, or None."""
    ours = tern.logits(prompt + ids[:-1])[len(prompt) - 1 :]
    different = np.nonzero(ours.argmax(1) != ids)[0]
    if not len(different):
        return None
    step = int(different[0])
    return step, int(ours[step].argmax()), ours[step], float(np.abs(ours[: step + 1] - theirs[: step + 1]).mean())


def show_difference(peer, exact, prompt, ids, theirs, found):
    """Prints a first difference; "near-tie", or whose token float32 chooses."""
    step, token, row, distance = found
    their_gap, our_gap = gap(theirs[step], ids[step], token), gap(row, token, ids[step])
    pieces = [peer.text([t]).decode(errors="replace") for t in (ids[step], token)]
    print(f"    llama.cpp {ids[step]} {pieces[0]!r}, by {their_gap:.3f}; tern {token} {pieces[1]!r}, by {our_gap:.3f}")
    if max(their_gap, our_gap) <= NEAR_TIE:
        return "near-tie"
    reference, at_once = exact.logits(prompt + ids[:step])[-1], peer.logits(prompt + ids[:step])[-1]
    choice = {ids[step]: "llama.cpp's", token: "tern's"}.get(int(reference.argmax()), "neither's")
    errors = [float(np.abs(r - reference).mean()) for r in (row, theirs[step])]
    print(
        f"      float32 chooses {choice}: llama.cpp's less tern's token {gap(reference, ids[step], token):+.3f}; mean"
        f" |difference| to it: tern {errors[0]:.3f}, llama.cpp {errors[1]:.3f}; tern to llama.cpp so far {distance:.3f}"
    )
    print(
        f"      llama.cpp with all tokens in one batch: gap {gap(at_once, ids[step], token):+.3f}, mean |difference| to"
        f" itself token by token {np.abs(at_once - theirs[step]).mean():.3f}"
    )
    return choice


def compare_prompt(text, peer, tern, exact):
    """What was found of one prompt: "equal" or what show_difference says; then what else is wrong."""
    prompt = peer.tokenize(text)
    wrong = [] if tern.tokenize(text) == prompt else ["other ids of the prompt"]
    ids, theirs = peer.greedy(prompt, N_GREEDY)
    found = first_difference(prompt, ids, theirs, tern)
    n_same = found[0] if found else len(ids)
    certain = peer.text(ids[:n_same]).decode(errors="ignore").encode()  # not a character cut between tokens
    if not tern.text(text, N_GREEDY).startswith(certain):
        wrong.append("other text from tern run")
    print(f"{n_same} of {len(ids)} tokens", *wrong, sep="; ", flush=True)
    return [show_difference(peer, exact, prompt, ids, theirs, found) if found else "equal", *wrong]


def compare_greedy(name, chat, peer, tern, exact):
    prompts, results = json.loads((BENCH / "prompts.json").read_text()), collections.Counter()
    for number, text in enumerate(prompts):
        print(f"  {number:2}: ", end="")
        results.update(compare_prompt(peer.chat(text) if chat else text, peer, tern, exact))
    equal, near = results.pop("equal", 0), results.pop("near-tie", 0)
    print(f"{name}: greedy: {len(prompts)} prompts, {equal} equal, {near} part at a near-tie; where others part")
    print(f"float32 chooses, and what else is wrong: {dict(results) or 'nothing'}\n")


def log_softmax(rows):
    rows = rows.astype(np.float64)
    rows -= rows.max(1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(1, keepdims=True))


class Score:
    """Means over positions of one engine against the reference."""

    def __init__(self):
        self.difference, self.divergence, self.agreement, self.nll = [], [], [], []

    def add(self, rows, reference, ids):
        ours, exact = log_softmax(rows), log_softmax(reference)
        self.difference += list(np.abs(rows - reference).mean(1))
        self.divergence += list((np.exp(exact) * (exact - ours)).sum(1))
        self.agreement += list(rows.argmax(1) == reference.argmax(1))
        self.nll += [-ours[i, ids[i + 1]] for i in range(len(ids) - 1)]

    def line(self, name):
        means = [np.mean(v) for v in (self.difference, self.divergence, self.agreement)]
        return f"| {name} | {means[0]:.4f} | {means[1]:.6f} | {100 * means[2]:.2f} % | {np.exp(np.mean(self.nll)):.4f} |"


def compare_float(name, peer, tern, exact):
    engines = {"tern": tern, "llama.cpp": peer, "float32": exact}
    scores = {key: Score() for key in engines}
    n = 0
    for text in (BENCH / "texts.txt").read_text().split("\n%%\n"):
        ids = peer.tokenize(text)
        n += len(ids)
        rows = {key: engine.logits(ids) for key, engine in engines.items()}
        for key, score in scores.items():
            score.add(rows[key], rows["float32"], ids)
    print(f"{name}: {n} positions of texts.txt against float32\n")
    print("| | mean logit difference | mean KL divergence | same likeliest token | perplexity |")
    print("|---|---:|---:|---:|---:|")
    for key, score in scores.items():
        print(score.line(key))
    print(flush=True)


def certainty(rows, exact, ids):
    """How far from a coin's toss the least certain of ids was: by how much both llama.cpp and float32 prefer it, over the
    mean |difference| of their logits there (an offset of all logits, which changes no probability, taken away)."""
    centred = [r - r.mean(1, keepdims=True) for r in (rows, exact)]
    noise = np.abs(centred[0] - centred[1]).mean(1)
    steps, margins = np.arange(len(ids)), []
    for r in (rows, exact):
        others = r.copy()
        others[steps, ids] = -np.inf
        margins.append(r[steps, ids] - others.max(1))
    return margins[0], float((np.minimum(*margins) / noise).min())


def record_case(peer, exact, text):
    prompt = peer.tokenize(text)
    ids, rows = peer.greedy(prompt, N_RECORD)
    gaps, sure = certainty(rows, exact.logits(prompt + ids[:-1])[len(prompt) - 1 :], ids)
    return {
        "prompt": text,
        "prompt_ids": prompt,
        "ids": ids,
        "gaps": [round(float(gap), 4) for gap in gaps],
        "certainty": round(sure, 2),
        "text": peer.text(ids).decode(errors="replace"),
    }


def record(models):
    """llama.cpp's ids of every prompt, and its tokens for the prompts with the most certain ones: where two logits are
    closer than int8 rows of activations move them, they do not tell whether an engine is right."""
    prompts = json.loads((BENCH / "prompts.json").read_text())
    about = f"bench/quality.py --record, llama-cpp-python {llama.__version__}"
    out = {"made_by": about, "models": {}}
    for name, chat in NAMES.items():
        path = models / f"{name}.gguf"
        peer, exact = Peer(path), Float(path)
        # Gemma's turns: this file has no chat template, and of raw text the model is rarely sure.
        texts = [peer.chat(prompt) if chat else GEMMA_TURN.format(prompt) for prompt in prompts]
        cases = [record_case(peer, exact, text) for text in texts]
        surest = sorted(cases, key=lambda case: case["certainty"])[-N_RECORDED_PROMPTS:]
        out["models"][name] = {
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "prompts": [[case["prompt"], case["prompt_ids"]] for case in cases],
            "greedy": surest,
        }
        peer.close()
    GOLDEN.write_text(json.dumps(out, ensure_ascii=False) + "\n")
    print(f"wrote {GOLDEN}")


def main():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "tern"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tern", default=os.environ.get("TERN", BENCH.parent / "build" / "tern"))
    parser.add_argument("--models", type=pathlib.Path, default=os.environ.get("TERN_MODELS", cache))
    parser.add_argument("--only", choices=NAMES, help="one of the models")
    parser.add_argument("--greedy", action="store_true")
    parser.add_argument("--float", action="store_true")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    options.models = pathlib.Path(options.models)
    keep = llama_speed.quiet()  # llama.cpp calls it as long as it runs
    if options.record:
        return record(options.models)
    every = not options.greedy and not options.float
    for name, chat in NAMES.items():
        if options.only not in (None, name):
            continue
        path = options.models / f"{name}.gguf"
        peer, tern, exact = Peer(path), Tern(options.tern, path), Float(path)
        if every or options.greedy:
            compare_greedy(name, chat, peer, tern, exact)
        if every or options.float:
            compare_float(name, peer, tern, exact)
        peer.close()
    del keep


if __name__ == "__main__":
    main()
