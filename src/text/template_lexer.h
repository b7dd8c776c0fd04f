/* Templates as tokens: text, tags, and what stands in tags. White-space control is done here. */
#ifndef TN_TEXT_TEMPLATE_LEXER_H
#define TN_TEXT_TEMPLATE_LEXER_H

#include "template_value.h"

typedef enum tn_ttoken_kind {
    TN_TOK_END, /* of the template */
    TN_TOK_DATA,
    TN_TOK_BLOCK_BEGIN,
    TN_TOK_BLOCK_END,
    TN_TOK_VARIABLE_BEGIN,
    TN_TOK_VARIABLE_END,
    TN_TOK_NAME,
    TN_TOK_STRING,
    TN_TOK_INTEGER,
    TN_TOK_FLOAT,
    TN_TOK_ADD,
    TN_TOK_SUB,
    TN_TOK_DIV,
    TN_TOK_FLOORDIV,
    TN_TOK_MUL,
    TN_TOK_MOD,
    TN_TOK_POW,
    TN_TOK_TILDE,
    TN_TOK_LBRACKET,
    TN_TOK_RBRACKET,
    TN_TOK_LPAREN,
    TN_TOK_RPAREN,
    TN_TOK_LBRACE,
    TN_TOK_RBRACE,
    TN_TOK_EQ,
    TN_TOK_NE,
    TN_TOK_GT,
    TN_TOK_GE,
    TN_TOK_LT,
    TN_TOK_LE,
    TN_TOK_ASSIGN,
    TN_TOK_DOT,
    TN_TOK_COLON,
    TN_TOK_PIPE,
    TN_TOK_COMMA,
    TN_TOK_SEMICOLON,
} tn_ttoken_kind;

typedef struct tn_ttoken {
    tn_ttoken_kind kind;
    uint32_t line;
    const tn_tstr *text; /* of data, names, strings */
    tn_tval number;
} tn_ttoken;

enum { TN_TMAX_BRACKETS = 1000 };

typedef struct tn_tlexer {
    tn_tmem *m;
    const char *p; /* n bytes of UTF-8 with newlines as \n, in memory of m */
    size_t n, at;
    uint32_t line;
    enum { TN_TLEX_TEXT, TN_TLEX_BLOCK, TN_TLEX_VARIABLE } state;
    tn_ttoken_kind begun; /* a tag that begins behind the text just given; TN_TOK_END: none */
    bool line_starts;     /* the text begins a line */
    char brackets[TN_TMAX_BRACKETS];
    size_t n_brackets;
    tn_ttoken token, ahead;
    bool has_ahead;
} tn_tlexer;

/* Copies the source, with its newlines made \n and a last one dropped. lexer->token is the first token. */
void tn_tlexer_init(tn_tlexer *lexer, tn_tmem *m, const char *source, size_t n);
void tn_tlexer_next(tn_tlexer *lexer);
const tn_ttoken *tn_tlexer_look(tn_tlexer *lexer);

/* "'name'" and the like, for messages. */
const char *tn_ttoken_name(tn_ttoken_kind kind);

/* Of digits, '_', a point and an exponent, whatever the host's language makes of a point. */
double tn_tdecimal_value(tn_tmem *m, const char *p, size_t n);

/* Python's str.isspace() of a code point. */
bool tn_tis_space(uint32_t code);

#endif
