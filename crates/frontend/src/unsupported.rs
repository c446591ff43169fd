//! Refuses features of kernels without a counterpart on the CPU, before the compiler stumbles over them.

use super::FrontendError;
use super::host::HostContext;
use super::lexer::TokenKind;

/// How a name is recognised.
enum UnsupportedName {
    Exactly(&'static str),
    /// The name starts so and is called, directly or with template arguments.
    Call(&'static str),
}

/// Names without a translation, and their names in messages.
const REFUSED: [(UnsupportedName, &str); 12] = [
    (UnsupportedName::Call("tex1D"), "the texture fetch"),
    (UnsupportedName::Call("tex2D"), "the texture fetch"),
    (UnsupportedName::Call("tex3D"), "the texture fetch"),
    (UnsupportedName::Call("texCubemap"), "the texture fetch"),
    (UnsupportedName::Call("surf1D"), "the surface access"),
    (UnsupportedName::Call("surf2D"), "the surface access"),
    (UnsupportedName::Call("surf3D"), "the surface access"),
    (UnsupportedName::Call("surfCubemap"), "the surface access"),
    (UnsupportedName::Exactly("cudaBindTexture"), "the texture reference"),
    (UnsupportedName::Exactly("cudaCreateTextureObject"), "the texture object"),
    (UnsupportedName::Exactly("cudaCreateSurfaceObject"), "the surface object"),
    (UnsupportedName::Exactly("cudaLaunchCooperativeKernelMultiDevice"), "the cooperative launch"),
];

/// Adds each feature without a counterpart on the CPU to `refusals`.
///
/// Code below a condition on `__CUDA_ARCH__` is left to the compiler.
pub(super) fn refuse_unsupported_features(
    context: &HostContext,
    refusals: &mut Vec<FrontendError>,
) {
    let source = context.source;
    let tokens = &context.tokens;
    let text = source.text;
    for (index, token) in tokens.iter().enumerate() {
        if token.kind != TokenKind::Ident || source.by_arch(token.start) {
            continue;
        }
        let word = token.text(text);
        let called = tokens.is_spelled_at(text, index + 1, "(")
            || tokens.is_spelled_at(text, index + 1, "<");
        let refused_entry = REFUSED.iter().find(|(name, _)| match name {
            UnsupportedName::Exactly(name) => word == *name,
            UnsupportedName::Call(prefix) => called && word.starts_with(prefix),
        });
        let Some((_, refused_feature)) = refused_entry else { continue };
        let place = context.function(token.start).map(|item| format!(" in {}", item.name));
        let what = format!("{refused_feature} {word}{}", place.unwrap_or_default());
        let path = source.path.to_owned();
        let line = source.line(token.start);
        refusals.push(FrontendError::Unsupported { what, path, line });
    }
}
