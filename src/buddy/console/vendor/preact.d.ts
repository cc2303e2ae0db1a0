/** The part of the vendored libraries that the console uses, for the type checker. */
export interface Signal<T> {
  value: T;
  peek(): T;
  subscribe(listener: (value: T) => void): () => void;
}
export interface ReadonlySignal<T> {
  readonly value: T;
  peek(): T;
}
export function signal<T>(value: T): Signal<T>;
export function computed<T>(compute: () => T): ReadonlySignal<T>;
export function effect(run: () => void | (() => void)): () => void;
export function batch<T>(run: () => T): T;
export function untracked<T>(run: () => T): T;
export type Node = any;
export function h(type: any, props: any, ...children: any[]): Node;
export function html(strings: TemplateStringsArray, ...values: any[]): Node;
export function render(node: Node, parent: Element): void;
export const Fragment: any;
export class Component<P = any, S = any> {
  constructor(props?: P);
  props: P;
  state: S;
  setState(state: Partial<S>): void;
  forceUpdate(): void;
  shouldComponentUpdate?(next: P, state: S): boolean;
  render(props: P, state: S): Node;
}
export function useEffect(run: () => void | (() => void), inputs?: any[]): void;
export function useLayoutEffect(run: () => void | (() => void), inputs?: any[]): void;
export function useMemo<T>(compute: () => T, inputs: any[]): T;
export function useCallback<T>(callback: T, inputs: any[]): T;
export function useRef<T>(value: T): { current: T };
export function useState<T>(value: T | (() => T)): [T, (value: T | ((before: T) => T)) => void];
