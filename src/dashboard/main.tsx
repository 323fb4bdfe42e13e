// The page's beginning.
import { render } from 'preact';
import { App } from './app.tsx';
import 'uplot/dist/uPlot.min.css';
import './styles.css';
import './parts.css';

const root = document.getElementById('app');
if (root !== null) render(<App />, root);
