/** Text that is there to be taken along. */

/** Text to be copied; without a script it can be selected as a whole. */
export function CopyText({ id, label, text, block }: { id: string; label: string; text: string; block?: boolean }) {
  return (
    <div class="copy">
      {block === true ? (
        <pre id={id} tabindex={0} aria-label={label}>
          {text}
        </pre>
      ) : (
        <output id={id} aria-label={label}>
          {text}
        </output>
      )}
      <button type="button" class="needs-script" data-copy={`#${id}`} aria-label={`Copy ${label}`}>
        Copy
      </button>
    </div>
  );
}
