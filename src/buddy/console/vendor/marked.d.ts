export function lexer(text: string, options?: Record<string, any>): any[];
