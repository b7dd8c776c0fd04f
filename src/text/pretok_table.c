/* The published pre-tokenizers, as data. docs/TOKENIZERS.md says where each was read and how to add one. */
#include "pretok.h"

#include <stddef.h>
#include <string.h>

/* ---- Pieces that several patterns share ---------------------------------------------------------------- */

#define HEAD               "[^\\r\\n\\p{L}\\p{N}]?" /* of a word: one space or sign */
#define LETTERS            HEAD "\\p{L}+"
#define SUFFIX             "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES             "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SYMBOLS_AND_SPACES " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES
#define UPPER              "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER              "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

/* ---- Patterns ------------------------------------------------------------------------------------------ */

/* OpenAI's encoder.py for GPT-2; also what `tokenizers` calls ByteLevel with use_regex. */
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
/* What `tokenizers` calls Digits with individual_digits, and Punctuation with behavior Contiguous. */
#define DIGITS      "\\p{N}"
#define PUNCTUATION "[\\p{P}!-/:-@\\[-`{-~]+"
/* meta-llama/llama3, llama/tokenizer.py. */
#define LLAMA3 SUFFIX "|" LETTERS "|\\p{N}{1,3}|" SYMBOLS_AND_SPACES
/* Qwen/Qwen2-7B: as Llama 3, digits one by one. */
#define QWEN2 SUFFIX "|" LETTERS "|\\p{N}|" SYMBOLS_AND_SPACES
/* Qwen/Qwen3.5: combining marks belong to the letters. */
#define QWEN35 SUFFIX "|" HEAD "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES
/* openai/tiktoken, tiktoken_ext/openai_public.py, o200k_base. */
#define O200K_WORDS HEAD UPPER "*" LOWER "+" SUFFIX "?|" HEAD UPPER "+" LOWER "*" SUFFIX "?|"
#define O200K       O200K_WORDS "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES
/* mistralai/Mistral-Nemo-Base-2407. */
#define TEKKEN                                                                                               \
    HEAD UPPER "*" LOWER "+|" HEAD UPPER "+" LOWER "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES
/* bigscience/bloom. Published as [^(\s|[...])]: a class within a class, so brackets and bar are in it too. */
#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"
/* deepseek-ai/DeepSeek-V3. */
#define KANA_AND_HAN "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define DEEPSEEK3_WORDS                                                                                      \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
#define DEEPSEEK3 DEEPSEEK3_WORDS " ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES
/* deepseek-ai/deepseek-coder-6.7b-base and deepseek-llm-7b-base: these letters and this punctuation. */
#define CJK "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define DEEPSEEK_LLM_LETTERS                                                                                 \
    "[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"                          \
    "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}"                   \
    "\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}"                            \
    "\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}"                                 \
    "\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}"                           \
    "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}"                           \
    "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}"                  \
    "\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}"                   \
    "\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}"                           \
    "\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}"                            \
    "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}"                             \
    "\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}"                  \
    "\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}"                   \
    "\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"                            \
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}"                           \
    "\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}"                         \
    "\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}"                   \
    "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}]+"
#define DEEPSEEK_LLM_SYMBOLS                                                                                 \
    "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+"
/* moonshotai/Kimi-K2, tokenization_kimi.py: o200k's without Han letters, which are runs of their own. Published with
 * intersections, [...&&[^\p{Han}]]; here the complement of what they leave out. */
#define NOT_HAN_UPPER "[^\\p{Ll}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{sc:Han}]"
#define NOT_HAN_LOWER "[^\\p{Lu}\\p{Lt}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{sc:Han}]"
#define KIMI                                                                                                 \
    "\\p{sc:Han}+|" HEAD NOT_HAN_UPPER "*" NOT_HAN_LOWER "+" SUFFIX "?|" HEAD NOT_HAN_UPPER                  \
    "+" NOT_HAN_LOWER "*" SUFFIX "?|\\p{N}{1,3}|" SYMBOLS_AND_SPACES
/* LGAI-EXAONE/K-EXAONE-236B-A23B: words joined by single spaces are one piece. Published with a repeat inside a
 * repeat, (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+; this takes the same text without a stack. */
#define EXAONE_MOE                                                                                           \
    SUFFIX "|" HEAD "\\p{L}(?:[\\p{L}\\p{M}]++| (?=\\p{L}))*+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|"       \
           "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
/* inclusionAI/Ling-lite. */
#define BAILING                                                                                              \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"           \
    "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
/* ByteDance-Seed/Seed-Coder-8B-Base. */
#define SEED SUFFIX "|" LETTERS "|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACES
/* inceptionai/Jais-2-8B-Chat: runs of spaces in powers of two. Published without the look back, with which a long run
 * of spaces is searched for a newline once and not once for each of its pieces. */
#define JAIS2                                                                                                \
    SUFFIX "|" LETTERS "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"                                        \
           "(?<![\\t\\x0B\\f\\x{85}\\p{Z}])\\s*[\\r\\n]+|\\s{512}(?!\\S)|"                                   \
           "\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|"     \
           "\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s"
/* tencent/Youtu-LLM-2B. */
#define YOUTU_PUNCTUATION                                                                                    \
    "[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{2019}\\x{2014}"                                       \
    "\\x{FF1A}\\x{FF1B}\\x{FF0C}\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+"
#define YOUTU_SCRIPTS                                                                                        \
    "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|" YOUTU_PUNCTUATION "|[\\x{3105}-\\x{312F}]+|" KANA_AND_HAN
#define YOUTU O200K_WORDS "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES
/* CohereLabs/tiny-aya-base: digits before the end of a word in threes from the right. Published as one pattern,
 * \d{1,3}(?=(?:\d{3})*\b), which looks at the whole number from each of its digits; here the number is found first and
 * then cut: one to three digits where the rest is threes, then threes. The engine of the publisher counts six numbers
 * of Latin-1 as parts of a word. */
#define WHOLE_NUMBER      "(?<!\\p{Nd})\\p{Nd}++(?![\\p{Alphabetic}\\p{M}\\p{Pc}\\xB2\\xB3\\xB9\\xBC-\\xBE])"
#define THREES_FROM_RIGHT "\\A\\p{Nd}{1,3}(?=(?:\\p{Nd}{3})*+\\z)|(?!\\A)\\G\\p{Nd}{3}"

/* The published forms of those that are other texts above. */
#define BLOOM_PUBLISHED " ?[^(\\s|[.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C}])]+"
#define KIMI_UPPER      "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define KIMI_LOWER      "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define KIMI_PUBLISHED                                                                                       \
    "[\\p{Han}]+|" HEAD KIMI_UPPER "*" KIMI_LOWER "+" SUFFIX "?|" HEAD KIMI_UPPER "+" KIMI_LOWER "*" SUFFIX  \
    "?|\\p{N}{1,3}|" SYMBOLS_AND_SPACES
#define EXAONE_MOE_PUBLISHED                                                                                 \
    SUFFIX "|" HEAD "(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|"          \
           "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define SEED_PUBLISHED SUFFIX "|" LETTERS "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACES
#define JAIS2_PUBLISHED                                                                                      \
    SUFFIX "|" LETTERS "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)|"          \
           "\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|"     \
           "\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"

/* ---- The table ----------------------------------------------------------------------------------------- */

static const tn_pretok_spec specs[] = {
    {.names = {"gpt-2", "phi-2", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum",
               "modern-bert", "exaone4", "jais", "trillion", "granite-docling"},
     .patterns = {GPT2}},
    {.names = {"mpt", "olmo"}, .patterns = {GPT2}, .nfc = true},
    {.names = {"roberta-bpe", "jina-v1-en", "jina-v2-code"},
     .patterns = {GPT2},
     .add_bos = true,
     .add_sep = true},
    {.names = {"smollm", "starcoder", "refact", "codeshell", "exaone", "mellum2"},
     .patterns = {DIGITS, GPT2}},
    {.names = {"command-r"}, .patterns = {DIGITS, GPT2}, .nfc = true},
    {.names = {"llama-bpe", "llama3", "llama-v3", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
     .patterns = {LLAMA3},
     .ignore_merges = true,
     .add_bos = true},
    {.names = {"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"}, .patterns = {LLAMA3}},
    {.names = {"minicpm5"},
     .patterns = {"\\p{N}{1,3}", SUFFIX "|" LETTERS "|\\p{N}+|" SYMBOLS_AND_SPACES},
     .ignore_merges = true},
    {.names = {"qwen2"}, .patterns = {QWEN2}, .nfc = true},
    {.names = {"deepseek-r1-qwen", "stablelm2", "kormo", "f2llmv2", "megrez", "hunyuan", "solar-open",
               "grok-2"},
     .patterns = {QWEN2}},
    {.names = {"ufakzeka"}, .patterns = {LETTERS "|\\p{N}|" SYMBOLS_AND_SPACES}},
    {.names = {"laguna"}, .published = {"[^\\n]+|[\\n]+", QWEN2}, .patterns = {"\\n+", QWEN2}},
    {.names = {"qwen35"}, .patterns = {QWEN35}, .nfc = true},
    {.names = {"gpt-4o", "llama4", "kanana2", "talkie", "gigachat", "minimax-m2"}, .patterns = {O200K}},
    {.names = {"granite-embed-multi-97m"}, .patterns = {O200K}, .ignore_merges = true},
    {.names = {"youtu"}, .patterns = {YOUTU_SCRIPTS, YOUTU}, .ignore_merges = true},
    {.names = {"tiny_aya", "cohere2moe"},
     .published = {"\\d{1,3}(?=(?:\\d{3})*\\b)", O200K},
     .patterns = {WHOLE_NUMBER, THREES_FROM_RIGHT, O200K}},
    {.names = {"tekken"}, .patterns = {TEKKEN}, .ignore_merges = true, .add_bos = true},
    {.names = {"kimi-k2"}, .published = {KIMI_PUBLISHED}, .patterns = {KIMI}},
    {.names = {"deepseek-v3", "hunyuan-dense", "hy_v4", "joyai-llm"},
     .patterns = {"\\p{N}{1,3}", KANA_AND_HAN, DEEPSEEK3}},
    {.names = {"spark2_5"},
     .patterns = {"\\p{N}{1,3}", KANA_AND_HAN, DEEPSEEK3_WORDS " ?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+",
                  DIGITS}},
    {.names = {"deepseek-coder"}, .patterns = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK, DIGITS}},
    /* The fourth is published as \s+$, which tries every space of a run that is not at the end. */
    {.names = {"deepseek-llm"},
     .published = {"[\\r\\n]", "\\s?" DEEPSEEK_LLM_LETTERS, DEEPSEEK_LLM_SYMBOLS, "\\s+$", CJK, DIGITS},
     .patterns = {"[\\r\\n]", "\\s?" DEEPSEEK_LLM_LETTERS, DEEPSEEK_LLM_SYMBOLS, "(?<!\\s)\\s++\\z", CJK,
                  DIGITS}},
    /* tiiuae/falcon-7b and Falcon3-7B-Base: ByteLevel comes before Digits there, so Digits sees the byte alphabet,
     * where B2, B3, B9 and BC to BE are digits too. */
    {.names = {"falcon"},
     .published = {PUNCTUATION, GPT2, "\\p{N}+", "[0-9][0-9][0-9]"},
     .patterns = {PUNCTUATION, GPT2, "[0-9\\xB2\\xB3\\xB9\\xBC-\\xBE]+", "[0-9][0-9][0-9]"},
     .n_byte_patterns = 2},
    {.names = {"falcon3"},
     .published = {PUNCTUATION, GPT2, DIGITS},
     .patterns = {PUNCTUATION, GPT2, "[0-9\\xB2\\xB3\\xB9\\xBC-\\xBE]"},
     .n_byte_patterns = 1,
     .ignore_merges = true,
     .add_bos = true},
    {.names = {"bloom", "poro-chat", "gpt3-finnish"}, .published = {BLOOM_PUBLISHED}, .patterns = {BLOOM}},
    {.names = {"viking"}, .published = {BLOOM_PUBLISHED, DIGITS}, .patterns = {BLOOM, DIGITS}},
    {.names = {"exaone-moe"}, .published = {EXAONE_MOE_PUBLISHED}, .patterns = {EXAONE_MOE}},
    {.names = {"bailingmoe", "bailingmoe2", "llada-moe"}, .patterns = {BAILING}},
    {.names = {"seed-coder"}, .published = {SEED_PUBLISHED}, .patterns = {SEED}},
    {.names = {"jais-2"}, .published = {JAIS2_PUBLISHED}, .patterns = {JAIS2}},
    /* google/gemma-4: SentencePiece's alphabet, ranked merges. */
    {.names = {"gemma4", "sarvam-moe", "granite-embed-multi-311m"}, .marks_spaces = true, .add_bos = true},
    /* What llama.cpp's converter means by this name: punctuation apart, then GPT-2's, then digits in threes. */
    {.names = {"default"},
     .patterns = {"[\\p{P}\\$\\+<=>\\^~\\|]+",
                  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)", "\\p{N}+",
                  "[0-9][0-9][0-9]"}},
};

const tn_pretok_spec *tn_pretok_find(const char *name) {
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (const char *const *known = specs[i].names; *known; known++)
            if (strcmp(*known, name) == 0) return &specs[i];
    return NULL;
}

const tn_pretok_spec *tn_pretok_spec_at(size_t i) {
    return i < sizeof specs / sizeof *specs ? &specs[i] : NULL;
}

/* The pattern of a stage; NULL for a kind that has none of its own. */
const char *tn_stage_pattern(const tn_stage *stage) {
    static const char *const patterns[] = {[TN_STAGE_BYTE_LEVEL] = GPT2,
                                           [TN_STAGE_DIGITS] = DIGITS,
                                           [TN_STAGE_DIGIT_RUNS] = "\\p{N}+",
                                           [TN_STAGE_PUNCTUATION] = PUNCTUATION};
    return stage->kind == TN_STAGE_SPLIT ? stage->pattern : patterns[stage->kind];
}

const char *tn_pretok_name(size_t i) {
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++)
        for (const char *const *known = specs[s].names; *known; known++)
            if (i-- == 0) return *known;
    return NULL;
}
