"""The rules that published tokenizer.json files cut text by, as `tokenizers` takes them, under the names that model files
give them (tokenizer.ggml.pre). Written from those files (docs/TOKENIZERS.md says where each was read), not from the table in
src/text/pretok_table.c: patterns stand here as published, where the table has some in another form."""

from typing import NamedTuple

from tokenizers import Regex, normalizers, pre_tokenizers


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def digits(individual):
    return pre_tokenizers.Digits(individual_digits=individual)


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def punctuation():
    return pre_tokenizers.Punctuation("contiguous")


class Rule(NamedTuple):
    stages: list
    nfc: bool = False
    ignore_merges: bool = False
    old_punctuation: bool = False  # by a class of characters that `tokenizers` has from an older Unicode

    def apply(self, tokenizer):
        if self.nfc:
            tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(self.stages)


def patterns(*published, **options):
    return Rule([*map(split, published), byte_level(False)], **options)


SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = SUFFIX + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = SUFFIX + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN35 = SUFFIX + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
KIMI = "|".join([
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+" + SUFFIX + "?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*" + SUFFIX + "?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
KANA_AND_HAN = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
             r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPARK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
         r"| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+")
DEEPSEEK_LLM_LETTERS = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴ"
    "ᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗ"
    "Ａ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃")
EXAONE_MOE = (SUFFIX + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?"
              r"|\s*[\r\n]|\s+(?!\S)|\s+")
BAILING = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
SEED = SUFFIX + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
JAIS2 = (SUFFIX + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)"
         r"|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}")
YOUTU_SCRIPTS = ("[\uac00-\ud7a3\u3131-\u318e]+|[！…“”‘’—：；，、-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|" + KANA_AND_HAN)
DEFAULT = [r"[\p{P}\$\+<=>\^~\|]+",
           r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)", r"\p{N}+", r"[0-9][0-9][0-9]"]

GPT2 = [byte_level(True)]
DIGITS_GPT2 = [digits(True), byte_level(True)]

# Names with one rule; the first is tested on the most texts.
GROUPS = [
    ("gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert exaone4 jais trillion granite-docling "
     "roberta-bpe jina-v1-en jina-v2-code", Rule(GPT2)),
    ("mpt olmo", Rule(GPT2, nfc=True)),
    ("smollm starcoder refact codeshell exaone mellum2", Rule(DIGITS_GPT2)),
    ("command-r", Rule(DIGITS_GPT2, nfc=True)),
    ("llama-bpe llama3 llama-v3 pixtral midm-2.0 lfm2 jina-v5-nano", patterns(LLAMA3, ignore_merges=True)),
    ("dbrx smaug-bpe chatglm-bpe glm4", patterns(LLAMA3)),
    ("minicpm5", patterns(r"\p{N}{1,3}", LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}+"), ignore_merges=True)),
    ("qwen2", patterns(QWEN2, nfc=True)),
    ("deepseek-r1-qwen stablelm2 kormo f2llmv2 megrez hunyuan solar-open grok-2", patterns(QWEN2)),
    ("ufakzeka", patterns(QWEN2.removeprefix(SUFFIX + "|"))),
    ("laguna", patterns(r"[^\n]+|[\n]+", QWEN2)),
    ("qwen35", patterns(QWEN35, nfc=True)),
    ("gpt-4o llama4 kanana2 talkie gigachat minimax-m2", patterns(O200K)),
    ("granite-embed-multi-97m", patterns(O200K, ignore_merges=True)),
    ("youtu", patterns(YOUTU_SCRIPTS, O200K.replace(r"\p{N}{1,3}", r"\p{N}"), ignore_merges=True)),
    ("tiny_aya cohere2moe", patterns(r"\d{1,3}(?=(?:\d{3})*\b)", O200K)),
    ("tekken", patterns(TEKKEN, ignore_merges=True)),
    ("kimi-k2", patterns(KIMI)),
    ("deepseek-v3 hunyuan-dense hy_v4 joyai-llm", patterns(r"\p{N}{1,3}", KANA_AND_HAN, DEEPSEEK3)),
    ("spark2_5", Rule([split(r"\p{N}{1,3}"), split(KANA_AND_HAN), split(SPARK), digits(True), byte_level(False)])),
    ("deepseek-coder", Rule([split(r"[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(CJK), digits(True),
                             byte_level(False)])),
    ("deepseek-llm", Rule([split(r"[\r\n]"), split(rf"\s?[{DEEPSEEK_LLM_LETTERS}]+"),
                           split("\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+"), split(r"\s+$"), split(CJK), digits(True),
                           byte_level(False)])),
    ("falcon", Rule([punctuation(), byte_level(True), digits(False), split("[0-9][0-9][0-9]")], old_punctuation=True)),
    ("falcon3", Rule([punctuation(), byte_level(True), digits(True)], ignore_merges=True, old_punctuation=True)),
    ("bloom poro-chat gpt3-finnish", patterns(BLOOM)),
    ("viking", Rule([split(BLOOM), digits(True), byte_level(False)])),
    ("exaone-moe", patterns(EXAONE_MOE)),
    ("bailingmoe bailingmoe2 llada-moe", patterns(BAILING)),
    ("seed-coder", patterns(SEED)),
    ("jais-2", patterns(JAIS2)),
    ("default", patterns(*DEFAULT)),
]
RULES = {name: rule for names, rule in GROUPS for name in names.split()}
MARKED_NAMES = ["gemma4", "sarvam-moe", "granite-embed-multi-311m"]  # google/gemma-4's tokenizer.json: no pieces at all
