#include "chat_wrap.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "terminal.h"
#include "tern.h"

enum { TAB_COLUMNS = 8, NOT_A_CHARACTER = 0xFFFD, EMOJI_LOOK = 0xFE0F };

/* ---- Characters ---- */

static size_t character_bytes(unsigned char first) {
    if (first < 0xC0) return 1;
    return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

static wchar_t decode(const char *bytes, size_t n) {
    const unsigned char first = (unsigned char)bytes[0];
    if (first < 0x80) return first;
    if (first < 0xC0 || n != character_bytes(first)) return NOT_A_CHARACTER;
    unsigned code = first & (0x7Fu >> n);
    for (size_t i = 1; i < n; i++) code = code << 6 | ((unsigned char)bytes[i] & 0x3F);
    return (wchar_t)code;
}

/* Where terminals do not agree, the most that one takes: then a line ends early rather than in a word. */
static unsigned width_of(wchar_t c) {
    const int width = wcwidth(c);
    if (c == EMOJI_LOOK) return 1; /* makes a narrow symbol wide */
    if (width >= 0) return (unsigned)width;
    return c < 0x1100 ? 1 : 2; /* newer than the locale */
}

/* Whether a line may end before this character, though no blank stands there: before wide ones, but for marks that close something,
 * and in Thai, Lao, Burmese and Khmer, which have no blanks between words. */
static bool may_begin_line(wchar_t c, unsigned width) {
    if (width == 0 || c == EMOJI_LOOK) return false;
    if ((c >= 0x0E00 && c < 0x0F00) || (c >= 0x1000 && c < 0x10A0) || (c >= 0x1780 && c < 0x1800))
        return true;
    return width == 2 && (c < 0x1F000 || c >= 0x20000) && !wcschr(L"、。，．：；！？」』）】〉》ー々", c);
}

/* ---- Output ---- */

void tn_wrap_write(tn_wrap *w) {
    if (w->n_out && !w->failed) w->failed = tn_write_all(STDOUT_FILENO, w->out, w->n_out);
    w->n_out = 0;
}

static void out(tn_wrap *w, const char *bytes, size_t n) {
    if (n > sizeof w->out - w->n_out) tn_wrap_write(w);
    memcpy(w->out + w->n_out, bytes, n);
    w->n_out += n;
}

static void out_blanks(tn_wrap *w) {
    for (; w->n_blanks; w->n_blanks--, w->column++) out(w, " ", 1);
}

/* The word goes where it has room: here or on a new line, before which blanks are dropped. */
static void out_word(tn_wrap *w) {
    if (w->n_word_columns) w->columns = tn_terminal_columns(STDOUT_FILENO);
    const bool fits = (uint64_t)w->column + w->n_blanks + w->n_word_columns <= w->columns;
    if (w->n_word_columns && !fits) {
        if (w->column) out(w, "\n", 1);
        w->column = w->n_blanks = 0;
    }
    if (w->n_word_columns) out_blanks(w);
    out(w, w->word, w->n_word);
    w->column += w->n_word_columns;
    w->n_word = w->n_word_columns = 0;
}

/* ---- Words ---- */

static void add(tn_wrap *w, const char *bytes, size_t n) {
    if (n > sizeof w->word - w->n_word) {
        w->overlong = true;
        out_word(w);
    }
    memcpy(w->word + w->n_word, bytes, n);
    w->n_word += n;
}

static void end_line(tn_wrap *w) {
    out_word(w);
    out(w, "\n", 1);
    w->column = w->n_blanks = 0;
    w->overlong = false;
}

static void blank(tn_wrap *w, unsigned n) {
    out_word(w);
    w->overlong = false;
    w->n_blanks += n;
    if (w->column + w->n_blanks > w->columns) w->n_blanks = w->columns; /* the next word begins a line */
}

/* As the terminal goes on, which cuts where it must. */
static void out_overlong(tn_wrap *w) {
    const unsigned width = w->n_word_columns;
    out(w, w->word, w->n_word);
    w->column = w->column + width > w->columns ? width : w->column + width;
    w->n_word = w->n_word_columns = 0;
}

static void add_visible(tn_wrap *w, const char *bytes, size_t n, unsigned width, bool as_is, bool may_begin) {
    if (may_begin) {
        out_word(w);
        w->overlong = false;
    }
    add(w, bytes, n);
    w->n_word_columns += width;
    if (as_is) out_blanks(w);
    if (as_is || w->overlong) {
        out_overlong(w);
    } else if (w->n_word_columns >= w->columns) {
        out_word(w);
        w->overlong = true;
    }
}

static void tab(tn_wrap *w, bool as_is) {
    const unsigned column = w->column + w->n_blanks + w->n_word_columns;
    const unsigned width = TAB_COLUMNS - column % TAB_COLUMNS;
    if (as_is)
        add_visible(w, "\t", 1, width, true, false);
    else
        blank(w, width);
}

static void add_character(tn_wrap *w, bool as_is) {
    const wchar_t c = decode(w->character, w->n_character);
    const size_t n = w->n_character;
    char shown[24];
    const size_t n_shown = tern_escape(shown, sizeof shown, w->character, n);
    w->n_character = 0;
    if (c == '\n') {
        end_line(w);
    } else if (c == ' ' && !as_is) {
        blank(w, 1);
    } else if (c == '\t') {
        tab(w, as_is);
    } else if (n_shown != n) {
        add_visible(w, shown, n_shown, (unsigned)n_shown, as_is, false);
    } else {
        const unsigned width = width_of(c);
        add_visible(w, w->character, n, width, as_is, !as_is && may_begin_line(c, width));
    }
}

/* ---- The whole ---- */

void tn_wrap_start(tn_wrap *w, bool is_terminal) {
    *w = (tn_wrap){.is_terminal = is_terminal, .columns = tn_terminal_columns(STDOUT_FILENO)};
}

void tn_wrap_byte(tn_wrap *w, char c, bool as_is) {
    if (!w->is_terminal) {
        out(w, &c, 1);
        return;
    }
    const bool inside = ((unsigned char)c & 0xC0) == 0x80;
    if (!inside && w->n_character) add_character(w, as_is);
    w->character[w->n_character++] = c;
    if (w->n_character >= character_bytes((unsigned char)w->character[0])) add_character(w, as_is);
}

void tn_wrap_sequence(tn_wrap *w, const char *sequence) {
    add(w, sequence, strlen(sequence));
}

void tn_wrap_end(tn_wrap *w) {
    if (w->n_character) add_character(w, false);
    out_word(w);
    w->overlong = false;
    tn_wrap_write(w);
}
