//! Refuses features of kernels that a CPU lacks, before the compiler stumbles over them.

use super::FrontendError;
use super::host::Context;
use super::lexer::Kind;

/// How a name is recognised.
enum Name {
    Exactly(&'static str),
    /// The name starts so and is called, directly or with template arguments.
    Call(&'static str),
}

/// Names that cannot be translated, and what to call them.
const REFUSED: [(Name, &str); 12] = [
    (Name::Call("tex1D"), "the texture fetch"),
    (Name::Call("tex2D"), "the texture fetch"),
    (Name::Call("tex3D"), "the texture fetch"),
    (Name::Call("texCubemap"), "the texture fetch"),
    (Name::Call("surf1D"), "the surface access"),
    (Name::Call("surf2D"), "the surface access"),
    (Name::Call("surf3D"), "the surface access"),
    (Name::Call("surfCubemap"), "the surface access"),
    (Name::Exactly("cudaBindTexture"), "the texture reference"),
    (Name::Exactly("cudaCreateTextureObject"), "the texture object"),
    (Name::Exactly("cudaCreateSurfaceObject"), "the surface object"),
    (Name::Exactly("cudaLaunchCooperativeKernelMultiDevice"), "the cooperative launch"),
];

/// Refuses features that the CPU does not have.
///
/// Code that a condition on `__CUDA_ARCH__` decides about is left to the compiler.
pub(super) fn check(context: &Context) -> Result<(), FrontendError> {
    let (source, tokens) = (context.source, &context.tokens);
    let text = source.text;
    for (index, token) in tokens.iter().enumerate() {
        if token.kind != Kind::Ident || source.by_arch(token.start) {
            continue;
        }
        let word = token.text(text);
        let called = tokens.is(text, index + 1, "(") || tokens.is(text, index + 1, "<");
        let refused = REFUSED.iter().find(|(name, _)| match name {
            Name::Exactly(name) => word == *name,
            Name::Call(prefix) => called && word.starts_with(prefix),
        });
        let Some((_, what)) = refused else { continue };
        let place = context.function(token.start).map(|item| format!(" in {}", item.name));
        let what = format!("{what} {word}{}", place.unwrap_or_default());
        let (path, line) = (source.path.to_owned(), source.line(token.start));
        return Err(FrontendError::Unsupported { what, path, line });
    }
    Ok(())
}
