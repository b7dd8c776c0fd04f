/* Letters: case and classes of characters as Python's str has them. */
#include <utf8proc.h>

#include "template_run.h"

/* Mappings to several characters, which utf8proc's simple ones lack: {character, what it becomes} (SpecialCasing.txt of the
 * Unicode Standard, those without condition or language). */
static const uint16_t full_upper[][4] = {
    {0x00DF, 0x0053, 0x0053, 0},      {0x0149, 0x02BC, 0x004E, 0},      {0x01F0, 0x004A, 0x030C, 0},
    {0x0390, 0x0399, 0x0308, 0x0301}, {0x03B0, 0x03A5, 0x0308, 0x0301}, {0x0587, 0x0535, 0x0552, 0},
    {0x1E96, 0x0048, 0x0331, 0},      {0x1E97, 0x0054, 0x0308, 0},      {0x1E98, 0x0057, 0x030A, 0},
    {0x1E99, 0x0059, 0x030A, 0},      {0x1E9A, 0x0041, 0x02BE, 0},      {0x1F50, 0x03A5, 0x0313, 0},
    {0x1F52, 0x03A5, 0x0313, 0x0300}, {0x1F54, 0x03A5, 0x0313, 0x0301}, {0x1F56, 0x03A5, 0x0313, 0x0342},
    {0x1F80, 0x1F08, 0x0399, 0},      {0x1F81, 0x1F09, 0x0399, 0},      {0x1F82, 0x1F0A, 0x0399, 0},
    {0x1F83, 0x1F0B, 0x0399, 0},      {0x1F84, 0x1F0C, 0x0399, 0},      {0x1F85, 0x1F0D, 0x0399, 0},
    {0x1F86, 0x1F0E, 0x0399, 0},      {0x1F87, 0x1F0F, 0x0399, 0},      {0x1F88, 0x1F08, 0x0399, 0},
    {0x1F89, 0x1F09, 0x0399, 0},      {0x1F8A, 0x1F0A, 0x0399, 0},      {0x1F8B, 0x1F0B, 0x0399, 0},
    {0x1F8C, 0x1F0C, 0x0399, 0},      {0x1F8D, 0x1F0D, 0x0399, 0},      {0x1F8E, 0x1F0E, 0x0399, 0},
    {0x1F8F, 0x1F0F, 0x0399, 0},      {0x1F90, 0x1F28, 0x0399, 0},      {0x1F91, 0x1F29, 0x0399, 0},
    {0x1F92, 0x1F2A, 0x0399, 0},      {0x1F93, 0x1F2B, 0x0399, 0},      {0x1F94, 0x1F2C, 0x0399, 0},
    {0x1F95, 0x1F2D, 0x0399, 0},      {0x1F96, 0x1F2E, 0x0399, 0},      {0x1F97, 0x1F2F, 0x0399, 0},
    {0x1F98, 0x1F28, 0x0399, 0},      {0x1F99, 0x1F29, 0x0399, 0},      {0x1F9A, 0x1F2A, 0x0399, 0},
    {0x1F9B, 0x1F2B, 0x0399, 0},      {0x1F9C, 0x1F2C, 0x0399, 0},      {0x1F9D, 0x1F2D, 0x0399, 0},
    {0x1F9E, 0x1F2E, 0x0399, 0},      {0x1F9F, 0x1F2F, 0x0399, 0},      {0x1FA0, 0x1F68, 0x0399, 0},
    {0x1FA1, 0x1F69, 0x0399, 0},      {0x1FA2, 0x1F6A, 0x0399, 0},      {0x1FA3, 0x1F6B, 0x0399, 0},
    {0x1FA4, 0x1F6C, 0x0399, 0},      {0x1FA5, 0x1F6D, 0x0399, 0},      {0x1FA6, 0x1F6E, 0x0399, 0},
    {0x1FA7, 0x1F6F, 0x0399, 0},      {0x1FA8, 0x1F68, 0x0399, 0},      {0x1FA9, 0x1F69, 0x0399, 0},
    {0x1FAA, 0x1F6A, 0x0399, 0},      {0x1FAB, 0x1F6B, 0x0399, 0},      {0x1FAC, 0x1F6C, 0x0399, 0},
    {0x1FAD, 0x1F6D, 0x0399, 0},      {0x1FAE, 0x1F6E, 0x0399, 0},      {0x1FAF, 0x1F6F, 0x0399, 0},
    {0x1FB2, 0x1FBA, 0x0399, 0},      {0x1FB3, 0x0391, 0x0399, 0},      {0x1FB4, 0x0386, 0x0399, 0},
    {0x1FB6, 0x0391, 0x0342, 0},      {0x1FB7, 0x0391, 0x0342, 0x0399}, {0x1FBC, 0x0391, 0x0399, 0},
    {0x1FC2, 0x1FCA, 0x0399, 0},      {0x1FC3, 0x0397, 0x0399, 0},      {0x1FC4, 0x0389, 0x0399, 0},
    {0x1FC6, 0x0397, 0x0342, 0},      {0x1FC7, 0x0397, 0x0342, 0x0399}, {0x1FCC, 0x0397, 0x0399, 0},
    {0x1FD2, 0x0399, 0x0308, 0x0300}, {0x1FD3, 0x0399, 0x0308, 0x0301}, {0x1FD6, 0x0399, 0x0342, 0},
    {0x1FD7, 0x0399, 0x0308, 0x0342}, {0x1FE2, 0x03A5, 0x0308, 0x0300}, {0x1FE3, 0x03A5, 0x0308, 0x0301},
    {0x1FE4, 0x03A1, 0x0313, 0},      {0x1FE6, 0x03A5, 0x0342, 0},      {0x1FE7, 0x03A5, 0x0308, 0x0342},
    {0x1FF2, 0x1FFA, 0x0399, 0},      {0x1FF3, 0x03A9, 0x0399, 0},      {0x1FF4, 0x038F, 0x0399, 0},
    {0x1FF6, 0x03A9, 0x0342, 0},      {0x1FF7, 0x03A9, 0x0342, 0x0399}, {0x1FFC, 0x03A9, 0x0399, 0},
    {0xFB00, 0x0046, 0x0046, 0},      {0xFB01, 0x0046, 0x0049, 0},      {0xFB02, 0x0046, 0x004C, 0},
    {0xFB03, 0x0046, 0x0046, 0x0049}, {0xFB04, 0x0046, 0x0046, 0x004C}, {0xFB05, 0x0053, 0x0054, 0},
    {0xFB06, 0x0053, 0x0054, 0},      {0xFB13, 0x0544, 0x0546, 0},      {0xFB14, 0x0544, 0x0535, 0},
    {0xFB15, 0x0544, 0x053B, 0},      {0xFB16, 0x054E, 0x0546, 0},      {0xFB17, 0x0544, 0x053D, 0},
};

static const uint16_t full_title[][4] = {
    {0x00DF, 0x0053, 0x0073, 0},      {0x0149, 0x02BC, 0x004E, 0},      {0x01F0, 0x004A, 0x030C, 0},
    {0x0390, 0x0399, 0x0308, 0x0301}, {0x03B0, 0x03A5, 0x0308, 0x0301}, {0x0587, 0x0535, 0x0582, 0},
    {0x1E96, 0x0048, 0x0331, 0},      {0x1E97, 0x0054, 0x0308, 0},      {0x1E98, 0x0057, 0x030A, 0},
    {0x1E99, 0x0059, 0x030A, 0},      {0x1E9A, 0x0041, 0x02BE, 0},      {0x1F50, 0x03A5, 0x0313, 0},
    {0x1F52, 0x03A5, 0x0313, 0x0300}, {0x1F54, 0x03A5, 0x0313, 0x0301}, {0x1F56, 0x03A5, 0x0313, 0x0342},
    {0x1FB2, 0x1FBA, 0x0345, 0},      {0x1FB4, 0x0386, 0x0345, 0},      {0x1FB6, 0x0391, 0x0342, 0},
    {0x1FB7, 0x0391, 0x0342, 0x0345}, {0x1FC2, 0x1FCA, 0x0345, 0},      {0x1FC4, 0x0389, 0x0345, 0},
    {0x1FC6, 0x0397, 0x0342, 0},      {0x1FC7, 0x0397, 0x0342, 0x0345}, {0x1FD2, 0x0399, 0x0308, 0x0300},
    {0x1FD3, 0x0399, 0x0308, 0x0301}, {0x1FD6, 0x0399, 0x0342, 0},      {0x1FD7, 0x0399, 0x0308, 0x0342},
    {0x1FE2, 0x03A5, 0x0308, 0x0300}, {0x1FE3, 0x03A5, 0x0308, 0x0301}, {0x1FE4, 0x03A1, 0x0313, 0},
    {0x1FE6, 0x03A5, 0x0342, 0},      {0x1FE7, 0x03A5, 0x0308, 0x0342}, {0x1FF2, 0x1FFA, 0x0345, 0},
    {0x1FF4, 0x038F, 0x0345, 0},      {0x1FF6, 0x03A9, 0x0342, 0},      {0x1FF7, 0x03A9, 0x0342, 0x0345},
    {0xFB00, 0x0046, 0x0066, 0},      {0xFB01, 0x0046, 0x0069, 0},      {0xFB02, 0x0046, 0x006C, 0},
    {0xFB03, 0x0046, 0x0066, 0x0069}, {0xFB04, 0x0046, 0x0066, 0x006C}, {0xFB05, 0x0053, 0x0074, 0},
    {0xFB06, 0x0053, 0x0074, 0},      {0xFB13, 0x0544, 0x0576, 0},      {0xFB14, 0x0544, 0x0565, 0},
    {0xFB15, 0x0544, 0x056B, 0},      {0xFB16, 0x054E, 0x0576, 0},      {0xFB17, 0x0544, 0x056D, 0},
};

static const uint16_t *find_row(const uint16_t (*table)[4], size_t n, uint32_t code) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (table[mid][0] < code)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && table[low][0] == code ? table[low] : NULL;
}

static utf8proc_category_t category(uint32_t code) {
    return utf8proc_category((utf8proc_int32_t)code);
}

/* ---- Classes ------------------------------------------------------------------------------------------- */

typedef struct char_range {
    uint32_t first, last;
} char_range;

static bool in_ranges(const char_range *ranges, size_t n, uint32_t code) {
    for (size_t i = 0; i < n; i++)
        if (code >= ranges[i].first && code <= ranges[i].last) return true;
    return false;
}

#define IN(ranges, code) in_ranges(ranges, sizeof(ranges) / sizeof *(ranges), code)

/* Properties Other_Lowercase, Other_Uppercase and Numeric_Type=Digit: what the category does not say. */
static const char_range other_lower[] = {
    {0xAA, 0xAA},       {0xBA, 0xBA},       {0x2B0, 0x2B8},     {0x2C0, 0x2C1},    {0x2E0, 0x2E4},
    {0x345, 0x345},     {0x37A, 0x37A},     {0x1D2C, 0x1D6A},   {0x1D78, 0x1D78},  {0x1D9B, 0x1DBF},
    {0x2071, 0x2071},   {0x207F, 0x207F},   {0x2090, 0x209C},   {0x2170, 0x217F},  {0x24D0, 0x24E9},
    {0x2C7C, 0x2C7D},   {0xA69C, 0xA69D},   {0xA770, 0xA770},   {0xA7F8, 0xA7F9},  {0xAB5C, 0xAB5F},
    {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA}};
static const char_range other_upper[] = {
    {0x2160, 0x216F}, {0x24B6, 0x24CF}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
static const char_range other_digits[] = {
    {0xB2, 0xB3},     {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},   {0x2070, 0x2070},
    {0x2074, 0x2079}, {0x2080, 0x2089},   {0x2460, 0x2468},   {0x2474, 0x247C},   {0x2488, 0x2490},
    {0x24EA, 0x24EA}, {0x24F5, 0x24FD},   {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},
    {0x278A, 0x2792}, {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};

static bool is_alpha(uint32_t code) {
    utf8proc_category_t k = category(code);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

static bool is_numeric(uint32_t code) {
    utf8proc_category_t k = category(code);
    return k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO;
}

static bool is_lower(uint32_t code) {
    return category(code) == UTF8PROC_CATEGORY_LL || IN(other_lower, code);
}

static bool is_upper(uint32_t code) {
    return category(code) == UTF8PROC_CATEGORY_LU || IN(other_upper, code);
}

static bool is_cased(uint32_t code) {
    return category(code) == UTF8PROC_CATEGORY_LT || is_lower(code) || is_upper(code);
}

bool tn_tis_word_char(uint32_t code) {
    return code == '_' || is_alpha(code) || is_numeric(code);
}

bool tn_tis_printable(uint32_t code) {
    utf8proc_category_t k = category(code);
    return code == ' ' || (k != UTF8PROC_CATEGORY_CN && k < UTF8PROC_CATEGORY_ZS);
}

static bool is_identifier_char(uint32_t code, bool first) {
    utf8proc_category_t k = category(code);
    if (code == '_' || is_alpha(code) || k == UTF8PROC_CATEGORY_NL) return true;
    return !first && (k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_ND ||
                      k == UTF8PROC_CATEGORY_PC);
}

static bool has_class(uint32_t code, tn_tclass class, bool first) {
    switch (class) {
    case TN_CLASS_ALPHA: return is_alpha(code);
    case TN_CLASS_ALNUM: return is_alpha(code) || is_numeric(code);
    case TN_CLASS_ASCII: return code < 0x80;
    case TN_CLASS_DECIMAL: return category(code) == UTF8PROC_CATEGORY_ND;
    case TN_CLASS_DIGIT: return category(code) == UTF8PROC_CATEGORY_ND || IN(other_digits, code);
    case TN_CLASS_NUMERIC: return is_numeric(code);
    case TN_CLASS_SPACE: return tn_tis_space(code);
    case TN_CLASS_PRINTABLE: return tn_tis_printable(code);
    default: return is_identifier_char(code, first);
    }
}

/* Some cased characters, and all of them of the one case. */
static bool is_one_case(tn_trun *r, const tn_tstr *s, bool upper) {
    bool some = false;
    for (size_t i = 0; i < s->n;) {
        uint32_t code = tn_tnext_char(s, &i);
        tn_tcharge(&r->m, 1);
        bool other = upper ? is_lower(code) : is_upper(code);
        if (other || category(code) == UTF8PROC_CATEGORY_LT) return false;
        some = some || (upper ? is_upper(code) : is_lower(code));
    }
    return some;
}

static bool is_title(tn_trun *r, const tn_tstr *s) {
    bool some = false, in_word = false;
    for (size_t i = 0; i < s->n;) {
        uint32_t code = tn_tnext_char(s, &i);
        tn_tcharge(&r->m, 1);
        if (is_upper(code) || category(code) == UTF8PROC_CATEGORY_LT) {
            if (in_word) return false;
            in_word = some = true;
        } else if (is_lower(code)) {
            if (!in_word) return false;
            some = true;
        } else {
            in_word = false;
        }
    }
    return some;
}

bool tn_tis_class(tn_trun *r, const tn_tstr *s, tn_tclass class) {
    if (class == TN_CLASS_LOWER || class == TN_CLASS_UPPER) return is_one_case(r, s, class == TN_CLASS_UPPER);
    if (class == TN_CLASS_TITLE) return is_title(r, s);
    if (s->n == 0) return class == TN_CLASS_ASCII || class == TN_CLASS_PRINTABLE;
    for (size_t i = 0; i < s->n;) {
        bool first = i == 0;
        tn_tcharge(&r->m, 1);
        if (!has_class(tn_tnext_char(s, &i), class, first)) return false;
    }
    return true;
}

/* ---- Case ---------------------------------------------------------------------------------------------- */

static void put_row(tn_tbuf *b, const uint16_t *row, bool is_data) {
    for (int i = 1; i < 4 && row[i]; i++) tn_tbuf_char(b, row[i], is_data);
}

static void put_upper(tn_tbuf *b, uint32_t code, bool is_data) {
    const uint16_t *row = find_row(full_upper, sizeof full_upper / sizeof *full_upper, code);
    if (row)
        put_row(b, row, is_data);
    else
        tn_tbuf_char(b, (uint32_t)utf8proc_toupper((utf8proc_int32_t)code), is_data);
}

static void put_title(tn_tbuf *b, uint32_t code, bool is_data) {
    const uint16_t *row = find_row(full_title, sizeof full_title / sizeof *full_title, code);
    if (row)
        put_row(b, row, is_data);
    else
        tn_tbuf_char(b, (uint32_t)utf8proc_totitle((utf8proc_int32_t)code), is_data);
}

static bool is_case_ignorable(uint32_t code) {
    static const char_range others[] = {
        {0x27, 0x27},     {0x2E, 0x2E},     {0x3A, 0x3A},     {0xB7, 0xB7},
        {0x387, 0x387},   {0x55F, 0x55F},   {0x5F4, 0x5F4},   {0x2018, 0x2019},
        {0x2024, 0x2024}, {0x2027, 0x2027}, {0xFE13, 0xFE13}, {0xFE52, 0xFE52},
        {0xFE55, 0xFE55}, {0xFF07, 0xFF07}, {0xFF0E, 0xFF0E}, {0xFF1A, 0xFF1A}};
    utf8proc_category_t k = category(code);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
           k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK || IN(others, code);
}

/* A sigma at [begin, end) that ends a word: a cased character before it, none behind. */
static bool is_final_sigma(tn_tbuf *b, const tn_tstr *s, size_t begin, size_t end) {
    bool before = false;
    for (size_t i = begin; i-- > 0;) {
        if (((uint8_t)s->p[i] & 0xC0) == 0x80) continue;
        size_t at = i;
        uint32_t code = tn_tnext_char(s, &at);
        tn_tcharge(b->m, 1);
        if (is_case_ignorable(code)) continue;
        before = is_cased(code);
        break;
    }
    while (before && end < s->n) {
        uint32_t code = tn_tnext_char(s, &end);
        tn_tcharge(b->m, 1);
        if (!is_case_ignorable(code)) return !is_cased(code);
    }
    return before;
}

static void put_lower(tn_tbuf *b, const tn_tstr *s, size_t begin, size_t end, uint32_t code, bool is_data) {
    if (code == 0x3A3) {
        tn_tbuf_char(b, is_final_sigma(b, s, begin, end) ? 0x3C2 : 0x3C3, is_data);
        return;
    }
    tn_tbuf_char(b, code == 0x130 ? 'i' : (uint32_t)utf8proc_tolower((utf8proc_int32_t)code), is_data);
    if (code == 0x130) tn_tbuf_char(b, 0x307, is_data);
}

static void put_folded(tn_tbuf *b, uint32_t code, bool is_data) {
    utf8proc_int32_t folded[8];
    int boundary = 0;
    utf8proc_ssize_t n =
        utf8proc_decompose_char((utf8proc_int32_t)code, folded, 8, UTF8PROC_CASEFOLD, &boundary);
    for (utf8proc_ssize_t i = 0; i < n && i < 8; i++) tn_tbuf_char(b, (uint32_t)folded[i], is_data);
}

void tn_tcase_chars(tn_tbuf *b, const tn_tstr *s, size_t begin, size_t end, tn_tcase to) {
    for (size_t i = begin; i < end;) {
        size_t at = i;
        uint32_t code = tn_tnext_char(s, &i);
        const bool is_data = tn_tstr_is_data(s, at);
        tn_tcharge(b->m, 1);
        if (to == TN_CASE_UPPER)
            put_upper(b, code, is_data);
        else if (to == TN_CASE_LOWER)
            put_lower(b, s, at, i, code, is_data);
        else
            put_folded(b, code, is_data);
    }
}

/* title() and swapcase(): what becomes of a character hangs on it and the one before. */
static void case_words(tn_tbuf *b, const tn_tstr *s, tn_tcase to) {
    bool in_word = false;
    for (size_t i = 0; i < s->n;) {
        size_t at = i;
        uint32_t code = tn_tnext_char(s, &i);
        const bool is_data = tn_tstr_is_data(s, at);
        tn_tcharge(b->m, 1);
        if (to == TN_CASE_SWAP && is_upper(code))
            put_lower(b, s, at, i, code, is_data);
        else if (to == TN_CASE_SWAP && is_lower(code))
            put_upper(b, code, is_data);
        else if (to == TN_CASE_SWAP)
            tn_tbuf_char(b, code, is_data);
        else if (in_word)
            put_lower(b, s, at, i, code, is_data);
        else
            put_title(b, code, is_data);
        in_word = is_cased(code);
    }
}

tn_tval tn_tto_case(tn_trun *r, const tn_tstr *s, tn_tcase to) {
    tn_tbuf b = {.m = &r->m};
    size_t first = 0;
    if (to == TN_CASE_CAPITALIZE && s->n) {
        uint32_t code = tn_tnext_char(s, &first);
        put_title(&b, code, tn_tstr_is_data(s, 0));
        to = TN_CASE_LOWER;
    }
    if (to == TN_CASE_TITLE || to == TN_CASE_SWAP)
        case_words(&b, s, to);
    else
        tn_tcase_chars(&b, s, first, s->n, to);
    tn_tval v = tn_tbuf_done(&b);
    return s->markup ? tn_tstring(tn_tas_markup(r, v.s)) : v;
}
