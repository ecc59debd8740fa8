/** A file of the repository as text. */
declare module "*?raw" {
  const text: string;
  export default text;
}
