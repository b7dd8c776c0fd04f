"""tern convert, the parts that tests/test_convert.py does not reach without llama.cpp's converter: which pre-tokenizer a
tokenizer.json has, SentencePiece in both its forms, special tokens, chat templates, sampling defaults, 8-bit weights, MXFP4, names."""

import io
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

try:
    import gguf
    import numpy as np
    import tokenizers

    TESTS = pathlib.Path(__file__).resolve().parent
    sys.path.insert(0, str(TESTS))
    import checkpoints
    import tiny
    import tokenizer_rules
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

CHECKPOINT = checkpoints.Checkpoint.of(tiny.CASES["llama"])
K = "tokenizer.ggml."

failures = []


def check(good, what):
    if not good:
        failures.append(what)
        print("  FAILED:", what)


def convert(folder, *options):
    """(metadata, tensors as arrays) of the converted checkpoint; None and what was said where that failed."""
    out = folder.parent / "out.gguf"
    done = subprocess.run([tiny.tern(), "convert", folder, out, "-q", *options], capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip()
    reader = gguf.GGUFReader(out)
    return {k: f.contents() for k, f in reader.fields.items()}, {t.name: (np.array(t.data), t.tensor_type.name) for t in reader.tensors}


# ---- Pre-tokenizers -------------------------------------------------------------------------------------------------


def test_pre_tokenizers(folder):
    """The published stages of every rule are found under a name of that rule."""
    plain, _ = checkpoints.byte_level(300)
    for names, rule in tokenizer_rules.GROUPS:
        model = tokenizers.Tokenizer(tokenizers.models.BPE(ignore_merges=rule.ignore_merges))
        rule.apply(model)
        published = json.loads(model.to_str())
        changed = {key: published[key] for key in ("normalizer", "pre_tokenizer")}
        changed["model"] = plain["model"] | {"ignore_merges": rule.ignore_merges}
        keys, said = convert(CHECKPOINT.write(folder, files={"tokenizer.json": plain | changed}))
        check(keys and keys[K + "pre"] in names.split(), f"{names}: found {keys and keys[K + 'pre']} {said if not keys else ''}")
    stages = plain["pre_tokenizer"]["pretokenizers"]
    removed = [stages[0] | {"behavior": "Removed", "invert": True}, stages[1]]
    one = {"type": "Sequence", "pretokenizers": removed}
    keys, said = convert(CHECKPOINT.write(folder, files={"tokenizer.json": plain | {"pre_tokenizer": one}}))
    check(keys and keys[K + "pre"] == "llama-bpe", f"removed and inverted: {said if not keys else keys[K + 'pre']}")
    # A sign by its number is that sign; behind two backslashes there is none, and the number of an operator is no operator.
    pattern = stages[0]["pattern"]["Regex"]
    for old, new, same in ((r"\r", r"\r", True), ("'", r"\x27", True), ("s|", r"\x73|", True), ("s|", r"\x{73}|", True),
                           (r"\s", r"\\x73", False), ("+", r"\x2B", False), ("s|", r"\x{73|", False)):  # fmt: skip
        split = stages[0] | {"pattern": {"Regex": pattern.replace(old, new, 1)}}
        pre = {"type": "Sequence", "pretokenizers": [split, stages[1]]}
        keys, said = convert(CHECKPOINT.write(folder, files={"tokenizer.json": plain | {"pre_tokenizer": pre}}))
        check(bool(keys) == same, f"{new} for {old}: {said if not keys else keys[K + 'pre']}")


# ---- SentencePiece --------------------------------------------------------------------------------------------------


def test_sentencepiece_model(folder):
    import sentencepiece

    blob = checkpoints.sentencepiece(80)
    reference = sentencepiece.SentencePieceProcessor(model_proto=blob)
    config = checkpoints.sentencepiece_config(300)
    added = {"tokenizer.json": None, "tokenizer.model": blob, "tokenizer_config.json": config, "added_tokens.json": {"<extra>": 200}}
    keys, said = convert(CHECKPOINT.write(folder, files=added))
    (folder / "tokenizer.model").unlink()
    check(keys, f"tokenizer.model: {said if not keys else ''}")
    if not keys:
        return
    tokens, scores, types = keys[K + "tokens"], keys[K + "scores"], keys[K + "token_type"]
    check(keys[K + "model"] == "llama" and len(tokens) == len(scores) == len(types) == 300, "tokenizer.model: its shape")
    for i in range(3, reference.vocab_size()):
        same = tokens[i] == reference.id_to_piece(i) and scores[i] == np.float32(reference.get_score(i))
        check(same, f"piece {i}: {tokens[i]!r} {scores[i]}, expected {reference.id_to_piece(i)!r} {reference.get_score(i)}")
    check(types[:3] == [3, 3, 3] and scores[:3] == [-1000.0] * 3, f"special tokens: {types[:3]} {scores[:3]}")
    check((tokens[200], types[200]) == ("<extra>", 4), f"added_tokens.json: {tokens[200]!r} {types[200]}")
    check((tokens[297], types[297]) == ("<|im_end|>", 3), f"a control token: {tokens[297]!r} {types[297]}")
    check((tokens[298], types[298]) == ("a b", 4), f"a user's token: {tokens[298]!r} {types[298]}")
    check((tokens[299], types[299]) == ("[PAD299]", 5), f"what has no token: {tokens[299]!r} {types[299]}")
    ids = [keys[K + f"{name}_token_id"] for name in ("bos", "eos", "unknown")]
    check(ids == [1, 2, 0], f"ids of special tokens {ids}")
    check(keys[K + "add_bos_token"] is True and keys[K + "add_eos_token"] is False, "add_bos_token, add_eos_token")


def test_sentencepiece_unigram(folder):
    """A vocabulary of the other kind: its scores, its rules of normalization and its flags; cut as `sentencepiece` does."""
    import sentencepiece

    for rules in ("nmt_nfkc", "identity"):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(checkpoints.TEXT.split(". ")), model_writer=model, model_type="unigram", vocab_size=48,
            normalization_rule_name=rules, add_dummy_prefix=rules == "identity", remove_extra_whitespaces=rules != "identity",
            minloglevel=2)  # fmt: skip
        blob = model.getvalue()
        reference = sentencepiece.SentencePieceProcessor(model_proto=blob)
        config = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": False, "add_eos_token": False}
        files = {"tokenizer.json": None, "tokenizer.model": blob, "tokenizer_config.json": config}
        more = {"added_tokens.json": {"far": 5000, "odd": "x"}}
        keys, said = convert(CHECKPOINT.write(folder, files=files | more))
        check(keys and keys[K + "model"] == "t5", f"unigram, {rules}: {said if not keys else keys[K + 'model']}")
        if not keys:
            continue
        check((K + "precompiled_charsmap" in keys) == (rules != "identity"), f"unigram, {rules}: its rules")
        flags = (keys[K + "add_space_prefix"], keys[K + "remove_extra_whitespaces"])
        check(flags == ((True, False) if rules == "identity" else (False, True)), f"unigram, {rules}: flags {flags}")
        for text in ("the cat", "  the  hat", "\ufb01sh \u2460 then", "Is it so?"):
            command = [tiny.tern(), "tokenize", "-m", folder.parent / "out.gguf"]
            done = subprocess.run(command, input=text.encode(), capture_output=True)
            found, expected = done.stdout.decode().split(), [str(i) for i in reference.encode(text)]
            check(found == expected, f"unigram, {rules}: {text!r} gives {found}, expected {expected}")
    (folder / "tokenizer.model").unlink()
    (folder / "added_tokens.json").unlink()


def test_sentencepiece_json(folder):
    """A tokenizer.json with byte fallback merges as `tokenizers` does."""
    letters = list("abcdefghijklmnopqrstuvwxyz.,") + ["\u2581"]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + letters
    merges = [("t", "h"), ("\u2581", "th"), ("i", "n"), ("\u2581th", "e")]
    tokens += ["".join(pair) for pair in merges]
    model = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            vocab={t: i for i, t in enumerate(tokens)}, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True
        )
    )
    model.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.Prepend("\u2581"), tokenizers.normalizers.Replace(" ", "\u2581")]
    )
    model.add_special_tokens(["<unk>", "<s>", "</s>"])
    config = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": False, "add_eos_token": False}
    files = {"tokenizer.json": model.to_str(), "tokenizer_config.json": config}
    keys, said = convert(CHECKPOINT.write(folder, files=files))
    check(keys, f"byte fallback: {said if not keys else ''}")
    if not keys:
        return
    check(keys[K + "model"] == "llama" and keys[K + "add_space_prefix"] is True, "byte fallback: its kind")
    check(keys[K + "token_type"][:4] == [2, 3, 3, 6], f"byte fallback: types {keys[K + 'token_type'][:4]}")
    for text in ("the inn", "then, in the thin.", "a\u00e9 the\n", "th  in"):
        done = subprocess.run(
            [tiny.tern(), "tokenize", "-m", folder.parent / "out.gguf"], input=text.encode(), capture_output=True
        )
        found, expected = done.stdout.decode().split(), [str(i) for i in model.encode(text, add_special_tokens=False).ids]
        check(found == expected, f"byte fallback: {text!r} gives {found}, expected {expected}")


# ---- WordPiece and pooling ------------------------------------------------------------------------------------------


def bert():
    return next(checkpoints.Checkpoint.of(case) for case in checkpoints.cases() if case.name == "bert")


def test_wordpiece(folder):
    """A tokenizer.json, and a vocab.txt alone, cut as `tokenizers` does."""
    checkpoint = bert()
    tokenizer, config = checkpoints.wordpiece(checkpoint.n_vocab)
    lines = "".join(f"{text}\n" for text in tokenizer["model"]["vocab"])
    cased = json.loads(json.dumps(tokenizer))
    cased["normalizer"]["lowercase"] = False
    alone = {"tokenizer.json": None, "vocab.txt": lines}
    for what, model, files in (
        ("tokenizer.json", tokenizer, {}),
        ("one with letters as they are", cased, {"tokenizer.json": cased}),
        ("vocab.txt", tokenizer, alone),
        ("vocab.txt, other ends of lines", tokenizer, alone | {"vocab.txt": lines.rstrip("\n").replace("\n", "\r\n")}),
        ("vocab.txt, letters as they are", cased, alone | {"tokenizer_config.json": config | {"do_lower_case": False}}),
    ):
        reference = tokenizers.Tokenizer.from_str(json.dumps(model))
        keys, said = convert(checkpoint.write(folder, files=files))
        check(keys and keys[K + "model"] == "bert", f"{what}: {said if not keys else keys[K + 'model']}")
        for text in ("The cat, eating.", "H\u00c9 h\u00e9 caf\u00e9", "\u65e5\u65e5the \u672c", "  a\tthing [MASK] x", "nothing"):
            command = [tiny.tern(), "tokenize", "-m", folder.parent / "out.gguf"]
            done = subprocess.run(command, input=text.encode(), capture_output=True)
            found, expected = done.stdout.decode().split(), [str(i) for i in reference.encode(text).ids]
            check(found == expected, f"{what}: {text!r} gives {found}, expected {expected}")
    marks = K + "normalizer.lowercase", K + "normalizer.strip_accents"
    parts = {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, {"type": "StripAccents"}]}
    for what, files, expected in (
        ("said by its parts", {"tokenizer.json": tokenizer | {"normalizer": parts}}, (True, True)),
        ("said by no part", {"tokenizer.json": tokenizer | {"normalizer": None}}, (None, None)),
        ("accents too", {"tokenizer.json": tokenizer | {"normalizer": tokenizer["normalizer"] | {"strip_accents": False}}}, (True, False)),
        ("by the configuration", alone | {"tokenizer_config.json": config | {"strip_accents": True}}, (True, True)),
        ("by none", alone | {"tokenizer_config.json": {"do_lower_case": None}}, (None, None)),
    ):
        keys, said = convert(checkpoint.write(folder, files=files))
        found = keys and tuple(keys.get(mark) for mark in marks)
        check(found == expected, f"case and accents, {what}: {said if not keys else found}")
    keys, said = convert(checkpoint.write(folder, files=alone | {"vocab.txt": lines + "more\n" * 19}))
    check(not keys and "more lines" in said, f"a vocab.txt that is too long: {said if not keys else 'accepted'}")


def test_pooling(folder):
    """What sentence-transformers writes beside an encoder, in the folder that modules.json names or in the usual one."""
    checkpoint = bert()

    def found(config, place="1_Pooling", modules=None):
        files = {} if modules is None else {"modules.json": modules}
        checkpoint.write(folder, files={"modules.json": None} | files)
        (folder / place).mkdir(exist_ok=True)
        (folder / place / "config.json").write_text(json.dumps(config))
        keys, said = convert(folder)
        (folder / place / "config.json").unlink()
        return keys.get("bert.pooling_type") if keys else said

    modes = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "lasttoken": "pooling_mode_lasttoken"}
    for number, (name, old) in enumerate(modes.items(), 1):
        check(found({mode: mode == old for mode in modes.values()}) == number, f"pooling: {old}")
        check(found({"pooling_mode": name}) == number, f"pooling: {name}")
        both = found({old: True, "pooling_mode_max_tokens": True})
        check("one alone" in str(both), f"pooling: {old} and max: {both}")

    def modules(path):
        places = {"Transformer": "", "Pooling": path, "Normalize": "2_Normalize"}
        return [{"path": place, "type": f"sentence_transformers.models.{kind}"} for kind, place in places.items()]

    check(found({"pooling_mode": "cls"}, "other", modules("other")) == 2, "pooling: the folder of modules.json")
    dense = modules("1_Pooling") + [{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]
    checkpoint.write(folder, files={"modules.json": dense})
    command = [tiny.tern(), "convert", folder, folder.parent / "out.gguf"]
    said = subprocess.run(command, capture_output=True, text=True).stderr
    check("'Dense' is not converted" in said and "Normalize" not in said, f"a module that has no place: {said}")
    keys, said = convert(checkpoint.write(folder, files={"modules.json": None}))
    check(keys and "bert.pooling_type" not in keys, f"without pooling: {said if not keys else 'has one'}")
    for what, words, said in (
        ("max", "one alone", found({"pooling_mode_max_tokens": True})),
        ("two", "one alone", found({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True})),
        ("outside", "leads out of the checkpoint", found({"pooling_mode": "cls"}, modules=modules("../other"))),
    ):
        check(words in str(said), f"pooling: {what}: {said}")


def test_dense(folder):
    """EmbeddingGemma's two products behind the pooling: vectors of the file are theirs, of numpy, of the vectors without them."""
    case = next(case for case in checkpoints.cases() if case.name == "gemma-embedding")
    gemma, out = checkpoints.Checkpoint.of(case), folder.parent / "out.gguf"
    width, inner = gemma.config["hidden_size"], 96
    kinds = ["Transformer", "Pooling", "Dense", "Dense", "Normalize"]
    places = ["", "1_Pooling", "2_Dense", "3_Dense", "4_Normalize"]
    listed = [{"path": place, "type": f"sentence_transformers.models.{kind}"} for place, kind in zip(places, kinds)]
    weights = {"2_Dense": tiny.random_normal("2", (inner, width)), "3_Dense": tiny.random_normal("3", (width, inner))}

    def write(modules=listed, activation="torch.nn.modules.linear.Identity", tensors=weights):
        gemma.write(folder, files={"modules.json": modules})
        (folder / "1_Pooling").mkdir(exist_ok=True)
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
        for name, array in tensors.items():
            (folder / name).mkdir(exist_ok=True)
            config = {"in_features": array.shape[1], "out_features": array.shape[0], "bias": False, "activation_function": activation}
            (folder / name / "config.json").write_text(json.dumps(config))
            (folder / name / "model.safetensors").write_bytes(checkpoints.safetensors({"linear.weight": (array, "F32")}))
        return folder

    def vector():
        command = [tiny.tern(), "embed", "-m", out, "-p", "in the sea the rain", "--no-normalize", "--json"]
        return np.array(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["embeddings"][0])

    keys, said = convert(write(modules=listed[:2]), "--type", "f32")
    check(keys, f"without products: {said if not keys else ''}")
    plain = vector()
    keys, said = convert(write(), "--type", "f32")
    check(keys, f"with products: {said if not keys else ''}")
    expected = weights["3_Dense"].astype(float) @ (weights["2_Dense"].astype(float) @ plain)
    difference = np.abs(vector() - expected).max() / np.abs(expected).max()
    check(difference < 1e-5, f"products: {difference:.1e} off")
    check(keys["gemma-embedding.dense_2_feat_out"] == keys["gemma-embedding.dense_3_feat_in"] == inner, "their widths")
    for what, words, bad in (
        ("another activation", "activation_function", {"activation": "torch.nn.modules.activation.Tanh"}),
        ("another width", "expected shape", {"tensors": weights | {"3_Dense": weights["3_Dense"][:-1]}}),
        ("a folder outside", "leads out", {"modules": listed[:2] + [listed[2] | {"path": "../2_Dense"}]}),
        ("no such folder", "there is no nowhere/config.json", {"modules": listed[:2] + [listed[2] | {"path": "nowhere"}]}),
    ):
        keys, said = convert(write(**bad))
        check(not keys and words in said, f"{what}: {said if not keys else 'accepted'}")
    for name in ("2_Dense/model.safetensors", "2_Dense/config.json"):
        before = (write() / name).read_bytes()
        done = subprocess.run([tiny.tern(), "convert", folder, folder / name], capture_output=True, text=True)
        check(done.returncode == 1 and "is a file of the checkpoint" in done.stderr, f"written over {name}: {done.stderr}")
        check((folder / name).read_bytes() == before, f"{name} has changed")


# ---- Special tokens, templates, sampling ----------------------------------------------------------------------------


def test_special(folder):
    tokenizer, config = checkpoints.byte_level(300, pairs=True)
    first = tokenizer["added_tokens"][0]["id"]
    generation = {"eos_token_id": [first + 1, first + 2, first + 3], "temperature": 0.6, "top_k": 20, "top_p": 0.95}
    generation["repetition_penalty"] = 1.05
    files = {"tokenizer.json": tokenizer, "generation_config.json": generation}
    keys, said = convert(CHECKPOINT.write(folder, files=files))
    check(keys, f"special tokens: {said if not keys else ''}")
    expected = {
        K + "model": "gpt2",
        K + "bos_token_id": first,
        K + "eos_token_id": first + 1,
        K + "eot_token_id": first + 2,
        K + "eom_token_id": first + 3,
        K + "padding_token_id": first + 2,
        K + "add_bos_token": True,
        "tokenizer.chat_template": config["chat_template"],
        "general.sampling.temp": float(np.float32(0.6)),
        "general.sampling.top_k": 20,
        "general.sampling.top_p": float(np.float32(0.95)),
        "general.sampling.penalty_repeat": float(np.float32(1.05)),
        "general.type": "model",
        "general.quantization_version": 2,
        "general.file_type": 1,
    }
    for key, value in expected.items():
        check(keys and keys.get(key) == value, f"{key}: {keys and keys.get(key)!r}, expected {value!r}")
    types = keys[K + "token_type"][first : first + 5]
    check(types == [3, 3, 3, 4, 5], f"types of added tokens {types}")
    check(keys[K + "merges"][0] == " ".join(tokenizer["model"]["merges"][0]), "merges as pairs")


def test_marks_of_special_tokens(folder):
    """What is written as control tokens are is one, marked or not; ends that are none are passed over."""
    texts = ["<pad>", "<mask>", "<2mass>", "[@BOS@]", "<|x|>", "<\uff5cx\uff5c>", "<unused7>", "<x>", "|>"]
    tokenizer, config = checkpoints.byte_level(300, added=["<|begin|>", "<|end|>", *texts])
    first = tokenizer["added_tokens"][0]["id"]
    for ends, expected in (
        ([first + 1, 300, -1, "x", first + 3, first + 1, first + 3], (first + 1, first + 3)),
        (first + 1, (first + 1, None)),
        ([first + 4], (first + 1, first + 4)),
    ):
        files = {"tokenizer.json": tokenizer, "generation_config.json": {"eos_token_id": ends}}
        keys, said = convert(CHECKPOINT.write(folder, files=files))
        found = keys and tuple(keys.get(K + f"{name}_token_id") for name in ("eos", "eot"))
        check(found == expected, f"ends {ends}: {said if not keys else found}")
        types = keys and keys[K + "token_type"][first : first + 2 + len(texts)]
        check(types == [3] * 9 + [4, 4], f"marks of special tokens: {types}")
    (folder / "generation_config.json").unlink()


def test_post_processors(folder):
    """Which special tokens a tokenizer.json's post-processor puts around one text: those of `tokenizers`; and which between two, what
    the ends are called: as the gguf package reads it."""
    tokenizer, config = checkpoints.byte_level(300, pairs=True)
    config = config | {"eos_token": "<|end|>"}  # as a text: of an object the package does not see that it is the same
    ids = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    begin, end, pad = ({"SpecialToken": {"id": text, "type_id": 0}} for text in ("<|begin|>", "<|end|>", "<pad>"))
    a, b = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")

    def template(single, pair=()):
        special = {text: {"id": text, "ids": [ids[text]], "tokens": [text]} for text in ids}
        return {"type": "TemplateProcessing", "single": single, "pair": list(pair) or [a, b], "special_tokens": special}

    sides = {"trim_offsets": True, "add_prefix_space": False}
    level = {"type": "ByteLevel", "use_regex": True} | sides
    roberta = {"type": "RobertaProcessing", "cls": ["<|begin|>", ids["<|begin|>"]], "sep": ["<|end|>", ids["<|end|>"]]} | sides
    cases = {
        "none": (None, {}),
        "bytes alone": (level, {}),
        "bytes alone, but the config adds": (level, {"add_bos_token": True, "add_eos_token": True}),
        "RoBERTa's": (roberta, {}),
        "RoBERTa's, without names in the config": (roberta, {"bos_token": None, "eos_token": None}),
        "a sequence": ({"type": "Sequence", "processors": [level, template([a, end])]}, {}),
        "a beginning that the config does not add": (template([begin, a]), {"add_bos_token": False}),
        "another end": (template([begin, a, pad]), {}),
        "an end, none between": (template([begin, a, end], [begin, a, end, b, end]), {}),
        "an end, one between": (template([begin, a, end], [begin, a, end, end, b, end]), {}),
        "no end, one between": (template([begin, a], [begin, a, end, b]), {}),
        "no end, another between": (template([begin, a], [begin, a, pad, b]), {}),
        "the second before the first": (template([begin, a], [begin, b, end, a]), {}),
    }
    rng = random.Random(1)

    def some(tokens, share):
        return [rng.choice(tokens)] if rng.random() < share else []

    for i in range(40):
        first, last = some([begin], 0.6), some([end, pad], 0.5)
        between = [rng.choice([begin, end, pad]) for _ in range(rng.randint(0, 3))]
        pair = some(first or [pad], 0.8) + [a, *between, b] + some(last or [pad], 0.8)
        adds = {f"add_{name}_token": rng.choice([True, False, None, "yes"]) for name in ("bos", "eos", "sep") if rng.random() < 0.3}
        cases[f"made, {i}: {first} {last} {pair} {adds}"] = template([*first, a, *last], pair), adds
    for what, (processor, change) in cases.items():
        files = {"tokenizer.json": tokenizer | {"post_processor": processor}, "tokenizer_config.json": config | change}
        keys, said = convert(CHECKPOINT.write(folder, files=files))
        if not keys:
            check(False, f"post-processor, {what}: {said}")
            continue
        reader = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        text, around = reader.encode("a", add_special_tokens=False).ids, reader.encode("a").ids
        expected = [around[0] != text[0], around[-1] != text[-1]]
        for i, name in enumerate(("add_bos_token", "add_eos_token")):
            expected[i] = change[name] if isinstance(change.get(name), bool) else expected[i]
        found = [bool(keys.get(K + "add_bos_token")), bool(keys.get(K + "add_eos_token"))]
        check(found == expected, f"post-processor, {what}: around a text {found}, expected {expected}")
        if not any(isinstance(value, bool) for value in change.values()):
            made = [keys.get(K + "bos_token_id")] * found[0] + text + [keys.get(K + "eos_token_id")] * found[1]
            check(made == around, f"post-processor, {what}: {made}, expected {around}")
        reference = gguf.SpecialVocab(folder, n_vocab=300)
        expected = [reference.add_special_token.get("sep"), *(reference.special_token_ids.get(name) for name in ("eos", "eot", "sep"))]
        found = [keys.get(K + name) for name in ("add_sep_token", "eos_token_id", "eot_token_id", "seperator_token_id")]
        check(found == expected or "without names" in what, f"post-processor, {what}: {found}, expected {expected}")
    (folder / "tokenizer_config.json").unlink()
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    keys, said = convert(folder)
    check(keys and keys[K + "add_bos_token"] and keys[K + "bos_token_id"] == ids["<|begin|>"], f"no tokenizer_config.json: {said}")


def test_templates(folder):
    _, config = checkpoints.byte_level(300)
    inline = config.pop("chat_template")
    several = [{"name": "default", "template": inline}, {"name": "tool-use", "template": "T"}]

    def found(additional=None, **files):
        names = {"jinja": "chat_template.jinja", "json": "chat_template.json", "config": "tokenizer_config.json"}
        shutil.rmtree(folder / "additional_chat_templates", ignore_errors=True)
        beside = {f"additional_chat_templates/{name}": text for name, text in (additional or {}).items()}
        CHECKPOINT.write(folder, files={"tokenizer_config.json": config} | beside | {names[k]: v for k, v in files.items()})
        keys, said = convert(folder)
        for name in ("chat_template.jinja", "chat_template.json"):
            (folder / name).unlink(missing_ok=True)
        return {k: v for k, v in (keys or {"error": said}).items() if "template" in k or k == "error"}

    key = "tokenizer.chat_template"
    check(found() == {}, "no template")
    check(found(jinja="{{ x }}\n") == {key: "{{ x }}\n"}, "chat_template.jinja")
    check(found(json={"chat_template": "{{ y }}"}) == {key: "{{ y }}"}, "chat_template.json")
    check(found(config=config | {"chat_template": inline}, jinja="no") == {key: inline}, "inline, and a file too")
    both = found(config=config | {"chat_template": several})
    check(both == {key: inline, key + ".tool_use": "T", key + "s": ["tool_use"]}, f"several templates: {both}")
    odd = [{"template": "A"}, {"name": "", "template": "B"}, {"name": "c", "template": 5}, {"name": "a b.Z1-\u00e9", "template": "D"}]
    told = found(config=config | {"chat_template": odd})
    check(told == {key + ".a_b_Z1___": "D", key + "s": ["a_b_Z1___"]}, f"templates without names, or of other names: {told}")
    check(found(config=config | {"chat_template": odd[:3]}) == {}, "templates of which none has a name and a text")
    check(found(config=config | {"chat_template": None}, jinja="J") == {key: "J"}, "none inline, but a file")
    check(found(config=config | {"chat_template": 5}, jinja="J") == {}, "a template that is a number")
    check(found(json={"chat_template": 5}) == {}, "chat_template.json without a text")
    check(found(jinja="") == {key: ""}, "an empty chat_template.jinja")
    twice = [{"name": name, "template": text} for name, text in (("a b", "A"), ("a_b", "B"), ("default", "C"), ("default", "D"))]
    told = found(config=config | {"chat_template": twice})
    check(told == {key: "D", key + ".a_b": "B", key + "s": ["a_b"]}, f"names twice: {told}")
    beside = {"tool_use.jinja": "T", "rag.jinja": "R", "x.txt": "X", ".jinja": "Y"} | {f"n{i}.jinja": str(i) for i in range(10, 20)}
    told = found(jinja="J", additional=beside)
    expected = {key: "J", key + ".tool_use": "T", key + ".rag": "R"} | {f"{key}.n{i}": str(i) for i in range(10, 20)}
    expected[key + "s"] = [*(f"n{i}" for i in range(10, 20)), "rag", "tool_use"]
    check(told == expected, f"templates in a folder: {told}")
    check(found(json={"chat_template": "{{ y }}"}, additional=beside) == {key: "{{ y }}"}, "a folder, but no chat_template.jinja")
    check(found(config=config | {"chat_template": inline}, jinja="J", additional=beside) == {key: inline}, "inline, and a folder")
    for n, where in ((64, None), (65, "more than 64")):
        many = {f"t{i}": str(i) for i in range(n)}
        for told in (
            found(config=config | {"chat_template": [{"name": name, "template": text} for name, text in many.items()]}),
            found(jinja="J", additional={name + ".jinja": text for name, text in many.items()}),
        ):
            good = where in told.get("error", "") if where else sorted(told[key + "s"]) == sorted(many)
            check(good, f"{n} templates: {told}")
    shutil.rmtree(folder / "additional_chat_templates")
    (folder / "additional_chat_templates" / "a.jinja").mkdir(parents=True)
    keys, said = convert(CHECKPOINT.write(folder, files={"tokenizer_config.json": config, "chat_template.jinja": "J"}))
    check(not keys and "a.jinja" in said, f"a template that is a folder: {said if not keys else 'accepted'}")
    shutil.rmtree(folder / "additional_chat_templates")


# ---- 8-bit weights --------------------------------------------------------------------------------------------------


def e4m3(codes):
    """The published format: bias 7, no infinity, 7f is NaN."""
    sign, exponent, mantissa = np.where(codes & 128, -1.0, 1.0), (codes >> 3 & 15).astype(int), (codes & 7).astype(float)
    return sign * np.where(exponent > 0, (1 + mantissa / 8) * 2.0 ** (exponent - 7), mantissa / 8 * 2.0**-6)


def e5m2(codes):
    return (codes.astype(np.uint16) << 8).view(np.float16).astype(float)


def random_codes(label, shape, limit):
    codes = (tiny.random_ints(label, int(np.prod(shape))) & np.uint64(0xFF)).astype(np.uint8).reshape(shape)
    return np.where((codes & 0x7F) >= limit, codes & 0x83, codes).astype(np.uint8)  # no NaN, no infinity


def test_8_bits(folder):
    name, out = "model.layers.0.mlp.gate_proj.weight", "blk.0.ffn_gate.weight"
    plain = {k: (a, "F32") for k, a in CHECKPOINT.tensors.items()}
    shape = CHECKPOINT.tensors[name].shape
    block = (40, 48)
    grid = tuple(-(-n // size) for n, size in zip(shape, block))
    scales = {
        "blocks": np.abs(tiny.random_normal("blocks", grid)) + np.float32(0.1),
        "rows": np.abs(tiny.random_normal("rows", (shape[0], 1))) + np.float32(0.1),
        "one": np.array(0.37, "f4"),
        "one in a list": np.array([0.37], "f4"),
    }
    for kind, decode, limit in (("F8_E4M3", e4m3, 0x7F), ("F8_E5M2", e5m2, 0x7C)):
        codes = random_codes(kind, shape, limit)
        for what, scale in scales.items():
            suffix, method = ("_scale_inv", "fp8") if what == "blocks" else ("_scale", "compressed-tensors")
            config = {"quantization_config": {"quant_method": method, "weight_block_size": list(block)}}
            tensors = plain | {name: (codes, kind), name + suffix: (scale, "F32")}
            keys, found = convert(CHECKPOINT.write(folder, config=config, tensors=tensors), "--type", "f32")
            full = scale.reshape(-1)[0] if scale.size == 1 else np.repeat(scale, 1 if what == "rows" else block[0], 0)
            if what == "blocks":
                full = np.repeat(full, block[1], 1)[: shape[0], : shape[1]]
            expected = (decode(codes).astype("f4") * full).astype("f4")
            good = keys and np.array_equal(found[out][0], expected)
            check(good, f"{kind}, scales of {what}: {found if not keys else 'other weights'}")
    wrong = plain | {name: (codes, kind), name + "_scale_inv": (np.ones((3, 3), "f4"), "F32")}
    config = {"quantization_config": {"quant_method": "fp8", "weight_block_size": list(block)}}
    keys, said = convert(CHECKPOINT.write(folder, config=config, tensors=wrong))
    check(not keys and "_scale_inv" in said, f"scales of another shape: {said if not keys else 'accepted'}")
    coded, blocks, good = plain | {name: (codes, kind)}, {"weight_block_size": list(block)}, {"quant_method": "fp8"}
    for what, scale, config, words in (
        ("integers as scales", (np.ones(1, "i8"), "I64"), good, "a scale of type I64"),
        ("three dimensions of scales", (np.ones((*grid, 1), "f4"), "F32"), good | blocks, "fits neither the rows"),
        ("no scales", (np.ones((0, 1), "f4"), "F32"), good | blocks, "no matrix"),
        ("no sizes of blocks", (np.ones(grid, "f4"), "F32"), good, "fits neither the rows"),
        ("blocks of 0", (np.ones(grid, "f4"), "F32"), good | {"weight_block_size": [0, 48]}, "fits neither the rows"),
        ("blocks of -1", (np.ones(grid, "f4"), "F32"), good | {"weight_block_size": [40, -1]}, "fits neither the rows"),
        ("blocks of texts", (np.ones(grid, "f4"), "F32"), good | {"weight_block_size": ["40", "48"]}, "fits neither the rows"),
        ("no method", (np.ones(grid, "f4"), "F32"), blocks, "quant_method ''"),
        ("another method", (np.ones(grid, "f4"), "F32"), blocks | {"quant_method": "\x1b[31mbnb"}, "expected fp8, compressed-tensors"),
    ):
        tensors = coded | {name + "_scale_inv": scale}
        keys, said = convert(CHECKPOINT.write(folder, config={"quantization_config": config}, tensors=tensors))
        check(not keys and words in said and "\x1b" not in said, f"8 bits, {what}: {said if not keys else 'accepted'}")
    norm = "model.norm.weight"
    vector = plain | {norm: (random_codes(kind, CHECKPOINT.tensors[norm].shape, limit), kind), norm + "_scale": (np.ones(3, "f4"), "F32")}
    keys, said = convert(CHECKPOINT.write(folder, config={"quantization_config": good}, tensors=vector))
    check(not keys and "no matrix" in said, f"8 bits, scales of a vector: {said if not keys else 'accepted'}")
    (folder / "config.json").write_text(json.dumps(CHECKPOINT.config | {"quantization_config": None}))
    (folder / "model.safetensors").write_bytes(checkpoints.safetensors(plain))
    keys, said = convert(folder)
    check(keys, f"a quantization_config of null: {said if not keys else ''}")


def test_doubles(folder):
    """Weights of 64 bits are those of 32 bits that are nearest."""
    exact = {name: array.astype("f8") * (1 + 2.0**-40) for name, array in CHECKPOINT.tensors.items()}
    for kind, dtype in (("auto", "F16"), ("f16", "F16"), ("f32", "F32"), ("q8_0", "Q8_0")):
        keys, found = convert(CHECKPOINT.write(folder, tensors={name: (array, "F64") for name, array in exact.items()}), "--type", kind)
        check(keys, f"doubles to {kind}: {found}" if not keys else "")
        single = {name: (array.astype("f4"), "F32") for name, array in exact.items()}
        same_kind = "f16" if kind == "auto" else kind
        expected = convert(CHECKPOINT.write(folder, tensors=single), "--type", same_kind)[1]
        for name in expected if keys else ():
            same = np.array_equal(found[name][0], expected[name][0]) and found[name][1] == expected[name][1]
            check(same, f"doubles to {kind}: {name} {found[name][1]}, {expected[name][1]}")
        check(not keys or dtype in {kind for _, kind in found.values()}, f"doubles to {kind}: none is {dtype}")


# ---- 4-bit weights --------------------------------------------------------------------------------------------------

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], "f4")


def random_mxfp4(name, shape):
    """(codes, scales, weights) of rows of the shape: OCP Microscaling 1.0, the first weight of two in the low half of a byte."""
    halves = (tiny.random_ints(name, int(np.prod(shape))) & np.uint64(15)).astype(np.uint8).reshape(shape)
    grid = (*shape[:-1], shape[-1] // 32)
    scales = (118 + tiny.random_ints(name + "scales", int(np.prod(grid))) % np.uint64(8)).astype(np.uint8).reshape(grid)
    weights = E2M1[halves] * np.repeat(2.0 ** (scales.astype("f4") - 127), 32, axis=-1)
    return (halves[..., ::2] | halves[..., 1::2] << 4).reshape(*grid, 16), scales, weights.astype("f4")


def test_mxfp4(folder):
    """gpt-oss as published: the same model as one of floats with those weights; kept as it is by --type auto."""
    gpt = checkpoints.Checkpoint.of(next(case for case in checkpoints.cases() if case.name == "gpt-oss"))
    config = {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}}
    packed, plain = {}, {}
    for name, array in gpt.tensors.items():
        if not name.endswith("experts.gate_up_proj") and not name.endswith("experts.down_proj"):
            packed[name] = plain[name] = (array, "F32")
            continue
        codes, scales, weights = random_mxfp4(name, array.swapaxes(1, 2).shape)
        packed |= {name + "_blocks": (codes, "U8"), name + "_scales": (scales, "U8")}
        plain[name] = (weights.swapaxes(1, 2), "F32")
    keys, expected = convert(gpt.write(folder, tensors=plain), "--type", "f32")
    check(keys, f"floats: {expected if not keys else ''}")
    gpt.write(folder, config=config, tensors=packed)
    keys, found = convert(folder, "--type", "f32")
    check(keys, f"MXFP4 to F32: {found if not keys else ''}")
    for name in expected if keys else ():
        check(np.array_equal(found[name][0], expected[name][0]), f"MXFP4 to F32: {name}")
    keys, found = convert(folder)
    check(keys and keys["general.file_type"] == 38, f"MXFP4 kept: {found if not keys else keys['general.file_type']}")
    experts = [name for name in found if name.endswith("exps.weight")] if keys else []
    check(len(experts) == 3 * 4, f"experts {experts}")
    for name in experts:
        data, kind = found[name]
        same = kind == "MXFP4" and np.array_equal(gguf.quants.dequantize(data, gguf.GGMLQuantizationType.MXFP4), expected[name][0])
        check(same, f"MXFP4 kept: {name} of type {kind}")

    blocks = next(name for name in packed if name.endswith("down_proj_blocks"))
    scales = blocks.replace("_blocks", "_scales")
    codes, powers = packed[blocks][0], packed[scales][0].copy()
    powers.flat[-1] = 255
    bad = {
        "a scale that is none": ({scales: (powers, "U8")}, "no finite number"),
        "scales of another shape": ({scales: (powers[..., :-1], "U8")}, "not those of blocks of 16 bytes"),
        "scales of floats": ({scales: (powers, "F8_E8M0")}, "not those of blocks of 16 bytes"),
        "blocks of 8 bytes": ({blocks: (codes[..., :8], "U8")}, "not those of blocks of 16 bytes"),
        "a row too few": ({blocks: (codes[:, :-1], "U8"), scales: (powers[:, :-1], "U8")}, "expected shape"),
        "no scales": ({scales: None}, "_scales' is missing"),
    }
    for what, (change, words) in bad.items():
        gpt.write(folder, config=config, tensors={name: value for name, value in (packed | change).items() if value})
        for kind in ("auto", "f16"):
            keys, said = convert(folder, "--type", kind)
            check(not keys and words in said, f"{what}, {kind}: {said if not keys else 'accepted'}")


# ---- Names ----------------------------------------------------------------------------------------------------------


NAME_PARTS = """Llama 3.1 8B Instruct it chat v1.0 v2 1.5b 7b1 0.5B 8x7B A2.7B small mini xl 100K 135M q4_k_m F16 bf16 IQ3_S iter3 dpo phi
2 128k hf Base GGUF vision lora large 1T E2B 0_5b x 8x22 a3b large-v2 Qwen2.5 v10.2.1 MEDIUM i1 Q8_0 fp8 7B7 4M m 1m""".split()


def test_names(folder):
    """As the gguf package takes a folder's name apart."""
    n_params = sum(a.size for a in CHECKPOINT.tensors.values())
    names = "Meta-Llama-3.1-8B-Instruct SmolLM2-135M-Instruct gemma-3-270m-it qwen2.5-0.5b phi bloom-7b1 tiny-100K-chat-v1.0 a-8x7B-x"
    rng = random.Random(1)
    names = names.split() + ["-".join(rng.choice(NAME_PARTS) for _ in range(rng.randint(1, 7))) for _ in range(60)]
    names += ["A model of words", "a--b-", "v1 of it", "some lab  Model"]
    for name in names:
        place = folder / name
        keys, said = convert(CHECKPOINT.write(place))
        expected = gguf.Metadata.apply_metadata_heuristic(gguf.Metadata(), None, None, place, n_params)
        for field in ("name", "basename", "finetune", "version"):
            found = keys and keys.get(f"general.{field}")
            check(found == getattr(expected, field), f"{name}: {field} {found!r}, expected {getattr(expected, field)!r}")
        label = expected.size_label or gguf.size_label(n_params, n_params, 0, 0)
        check(keys and keys.get("general.size_label") == label, f"{name}: size {keys and keys.get('general.size_label')}, expected {label}")


CARD_KEYS = "license tags languages author base_model dataset".split()
CARDS = {
    "lists": """---
license: [mit, apache-2.0]
license_name: two
license_link: https://example.org/licence
language:
- en
- no
tags: [tiny, test]
pipeline_tag: text-generation
model_creator: Some Body
base_model:
- some-lab/Base-Model-v2-1B
- https://huggingface.co/other/Thing
- https://example.org/x
datasets: org/some-data
---
# A model
""",
    "texts": "---\r\nlicense: mit\r\ntags: one\r\nlanguages: en\r\nauthor: A\r\nbase_model: lab/Thing-7B-Instruct-v1.5\r\n---\r\n",
    "fields of nothing": "---\nlicense:\nlanguage: null\ntags: ~\nbase_model: Null\ndatasets:\n---\n",
    "the text null": "---\nlicense: \"null\"\ntags: ['null', '~']\n---\n",
    "no fields": "---\nx: {a: [b]}\n---\n",
    "no front matter": "# license: mit\n",
    "nothing": "",
}


def test_card(folder):
    """README.md's front matter, as the gguf package reads it."""
    for what, text in CARDS.items():
        keys, said = convert(CHECKPOINT.write(folder, files={"README.md": text}))
        card = gguf.Metadata.load_model_card(folder)
        metadata = gguf.Metadata.apply_metadata_heuristic(gguf.Metadata(), card, None, folder, 1)
        writer = gguf.GGUFWriter(None, "llama")
        metadata.set_gguf_meta_model(writer)
        expected = {key: item.value for key, item in writer.kv_data[0].items() if key.split(".")[1] in CARD_KEYS}
        expected = {key: item for key, item in expected.items() if not key.endswith(".count") or item > 0}
        found = {key: item for key, item in (keys or {}).items() if key.startswith("general.") and key.split(".")[1] in CARD_KEYS}
        check(found == expected, f"card, {what}: {found if keys else said}, expected {expected}")
    keys, said = convert(CHECKPOINT.write(folder, files={"README.md": "---\nlicense: mit\n"}))
    check(keys and "general.license" not in keys, f"front matter without an end: {keys.get('general.license') if keys else said}")


def test_a_card_that_is_no_yaml_is_told(folder):
    for text in ("---\nlicense: [mit\n---\n", "---\n- mit\n---\n", "---\n\n---\n"):
        CHECKPOINT.write(folder, files={"README.md": text})
        done = subprocess.run([tiny.tern(), "convert", folder, folder.parent / "out.gguf"], capture_output=True, text=True)
        check(done.returncode == 0, f"card {text!r}: {done.stderr}")
        check("tern: warning: the front matter of README.md cannot be read" in done.stderr, f"card {text!r}: {done.stderr}")


def main():
    tests = [value for name, value in globals().items() if name.startswith("test_")]
    for test in tests:
        with tempfile.TemporaryDirectory() as name:
            try:
                test(pathlib.Path(name) / "checkpoint")
            except Exception as error:  # noqa: BLE001
                check(False, f"{test.__name__}: {type(error).__name__}: {error}")
        print(test.__name__, "done")
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
